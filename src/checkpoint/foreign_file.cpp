#include "checkpoint/foreign_file.h"

#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>

namespace ddp {
namespace {

using namespace std::string_view_literals;

// Loads tensors only: a pickle cannot run code with weights_only.
constexpr const char* kConvert =
    "import sys, torch; from safetensors.torch import save_file; "
    "w = torch.load(sys.argv[1], map_location='cpu', weights_only=True); "
    "w = next((w[k] for k in ('state_dict', 'model_state_dict', 'model') if k in w), w); "
    "save_file({k: v.clone().contiguous() for k, v in w.items() if torch.is_tensor(v)}, sys.argv[2])";

std::string converted_by_pytorch(const std::string& name) {
  std::string to = std::filesystem::path(name).replace_extension(".safetensors").string();
  if (to == name) to = std::filesystem::path(name).replace_extension(".converted.safetensors").string();
  return fmt::format("convert it: python3 -c \"{}\" {} {}", kConvert, shell_word(name), shell_word(to));
}

constexpr const char* kConvertElsewhere =
    "load it with the library that wrote it, and save its tensors with PyTorch's names and layouts by "
    "safetensors.torch.save_file";

// The name of the first file in a zip archive; empty if it lies behind `head`.
std::string_view first_entry(std::string_view head) {
  constexpr size_t kLength = 26, kName = 30;  // offsets in the local file header
  if (head.size() < kName) return "";
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<uint8_t>(head[at])); };
  return head.substr(kName, byte(kLength) | byte(kLength + 1) << 8);
}

std::string zip_archive(std::string_view head, const std::string& name) {
  const std::string_view entry = first_entry(head);
  if (entry.ends_with("data.pkl")) return "it is an archive of torch.save; " + converted_by_pytorch(name);
  if (entry.ends_with(".npy")) return fmt::format("it is an archive of NumPy arrays; {}", kConvertElsewhere);
  if (entry == "metadata.json" || entry == "config.json")
    return fmt::format("it is a Keras model; {}", kConvertElsewhere);
  return fmt::format("it is a zip archive; unpack it: unzip {}", shell_word(name));
}

std::string text_file(std::string_view head, const std::string& name) {
  if (head.starts_with("version https://git-lfs"))
    return fmt::format(
        "it is a pointer of Git LFS, not the file itself; get the file in its repository: git lfs pull "
        "--include {}",
        shell_word(std::filesystem::path(name).filename().string()));
  const size_t begin = std::min(head.find_first_not_of("\xEF\xBB\xBF \t\r\n"), head.size());
  std::string start(head.substr(begin, 16));
  std::ranges::transform(start, start.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (start.starts_with("<!doctype html") || start.starts_with("<html"))
    return "it is an HTML page, perhaps an error or a login page in place of a download; download the file again";
  if (start.starts_with('{') || start.starts_with('['))
    return "it is a JSON text, perhaps an index of other files; give the file with the weights";
  return "it is a text; give the file with the weights";
}

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](unsigned char c) { return c >= ' ' || (c >= '\t' && c <= '\r'); });
}

// Without the suffix of a packer; a file of another suffix keeps its own behind another stem.
std::string unpacked_name(const std::string& name) {
  std::filesystem::path path = name;
  const std::string suffix = path.extension().string();
  const bool packer = suffix == ".gz" || suffix == ".bz2" || suffix == ".xz" || suffix == ".zst";
  return path.replace_extension(packer ? "" : ".unpacked" + suffix).string();
}

struct Unpacked {
  std::string_view magic;
  const char *what, *command;
};
constexpr Unpacked kPacked[] = {{"\x1F\x8B"sv, "gzip", "gunzip"},
                                {"BZh"sv, "bzip2", "bunzip2"},
                                {"\xFD"
                                 "7zXZ\0"sv,
                                 "xz", "unxz"},
                                {"\x28\xB5\x2F\xFD"sv, "zstd", "unzstd"}};

}  // namespace

std::string foreign_file(std::string_view head, const std::string& name) {
  if (head.empty()) return "it is empty; copy or download it again";
  if (head.starts_with("PK\x03\x04")) return zip_archive(head, name);
  for (const Unpacked& packed : kPacked)
    if (head.starts_with(packed.magic))
      return fmt::format("it is packed with {}; unpack it: {} -c {} > {}", packed.what, packed.command,
                         shell_word(name), shell_word(unpacked_name(name)));
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return "it is a Python pickle, as of torch.save in its old format; " + converted_by_pytorch(name);
  if (head.size() > 257 && head.substr(257).starts_with("ustar"))
    return fmt::format("it is a tar archive; unpack it: tar -xf {}", shell_word(name));
  if (head.starts_with("\x89HDF\r\n\x1A\n"sv))
    return fmt::format("it is an HDF5 file, as of Keras; {}", kConvertElsewhere);
  if (head.starts_with("\x93NUMPY"sv)) return fmt::format("it is a NumPy array; {}", kConvertElsewhere);
  if (head.starts_with("GGUF")) return fmt::format("it is a GGUF file; {}", kConvertElsewhere);
  if (head.size() > 4 && head[0] == '\x08' && head[2] == '\x12' && head.find("pytorch") != head.npos)
    return fmt::format("it is an ONNX model; {}", kConvertElsewhere);
  if (head.starts_with("\x89PNG"sv) || head.starts_with("\xFF\xD8\xFF"sv))
    return "it is a picture; give the file with the weights";
  return is_text(head) ? text_file(head, name) : "";
}

}  // namespace ddp
