// What the names of folders and files say about a data set.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace ddp {

// The names of the parts of a data set, in any case; first those that are preferred.
inline constexpr std::array<std::string_view, 2> kTrainNames = {"train", "training"};
inline constexpr std::array<std::string_view, 5> kValNames = {"val", "validation", "valid", "test", "testing"};

enum class Split : uint8_t { none, train, val };
Split split_of(std::string_view name);
// The first word of the name that is a name of a split, as in seg_train, Test-set and val2017.
Split split_word_of(std::string_view name);
// Whether one of the words stands in the name, in any case, with no letter beside it.
bool has_word(std::string_view name, std::span<const std::string_view> words);

bool equal_but_for_case(std::string_view a, std::string_view b);  // ASCII

// Whether an operating system, a file server or a program keeps its own files in a folder of this name, such as
// __MACOSX, @eaDir or lost+found.
bool is_system_folder(std::string_view name);
// Whether systems hide a file or folder of this name: dot files, and Windows' Thumbs.db and desktop.ini.
bool is_hidden(std::string_view name);

}  // namespace ddp
