"""The maps: the Markdown files of a tree."""


def maps_of(root):
    """Their paths, sorted, without those of build folders and results."""
    return [path for path in sorted(root.rglob("*.md")) if path.relative_to(root).parts[0] not in (".git", "build", "runs")]
