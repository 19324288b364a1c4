#pragma once

#include "core/error.h"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>

namespace ddp {

// Expects that `action` throws an Error with this code whose text contains all `parts`.
inline void expect_error(Exit code, std::initializer_list<std::string> parts, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "no \"" << part << "\" in: " << error.what();
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

}  // namespace ddp
