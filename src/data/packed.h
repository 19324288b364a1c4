// Numbers as bytes in the order of this machine, for the messages and files of the same program.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace ddp {

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Removes a number from the front. Returns false where the bytes end too early.
template <class T>
bool take(std::string_view& from, T& value) {
  if (from.size() < sizeof value) return false;
  std::memcpy(&value, from.data(), sizeof value);
  from.remove_prefix(sizeof value);
  return true;
}

}  // namespace ddp
