#include "app/machine/engine_file.h"

#include "core/error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ddp {
namespace {

namespace fs = std::filesystem;

const Identity kHopper{{"device", "H100"}, {"precision", "bf16"}};

TEST(EngineFile, GivesItsEnginesToTheSameDevice) {
  const TempFolder folder;
  const fs::path file = folder / "engines.json";
  EXPECT_EQ(read_engine_file(file), "");
  EXPECT_EQ(engines_of("", kHopper), MeasuredEngines());
  const MeasuredEngines engines{{"forward pass", {41, 1, 4}}, {"input gradient", {7}}};
  write_engine_file(file, kHopper, engines);
  const std::string content = read_engine_file(file);
  EXPECT_EQ(engines_of(content, kHopper), engines);
  EXPECT_EQ(engines_of(content, {{"device", "H200"}, {"precision", "bf16"}}), MeasuredEngines());
}

TEST(EngineFile, OfAnotherKindIsRefused) {
  const TempFolder folder;
  const fs::path file = folder / "engines.json";
  const auto code = [&] {
    try {
      read_engine_file(file);
    } catch (const Error& e) {
      return e.code();
    }
    return Exit::done;
  };
  for (const std::string text : {"", "[]", "{}", R"({"identity": {}, "engines": {"a": []}})",
                                 R"({"identity": {}, "engines": {"a": ["x"]}})", R"({"identity": 5, "engines": {}})"}) {
    std::ofstream(file) << text;
    EXPECT_EQ(code(), Exit::data) << text;
  }
  fs::remove(file);
  fs::create_symlink(folder / "elsewhere", file);
  EXPECT_EQ(code(), Exit::output);
}

}  // namespace
}  // namespace ddp
