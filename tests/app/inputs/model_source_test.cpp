#include "app/inputs/model_source.h"

#include "core/error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace ddp {
namespace {

const std::string kText = "layers = [{ flatten = true }, { linear = \"classes\" }]\n";

TEST(ModelSource, IsAFileOrABuiltInNetwork) {
  const TempFolder folder;
  folder.write("my.net.toml", kText);
  const ModelFile file = read_model_source((folder / "my.net.toml").string());
  EXPECT_EQ(file.name, "my.net");
  EXPECT_EQ(file.text, kText);
  EXPECT_EQ(network_of(file, "there", {4, 4, 1}, 3).output(), (ImageShape{1, 1, 3}));
  const ModelFile lenet = read_model_source("lenet");
  EXPECT_EQ(network_of(lenet, "", {28, 28, 1}, 10).name(), "lenet");

  // The identity has no path and no name, so a file may move.
  EXPECT_EQ(identity_of(lenet), "lenet");
  EXPECT_EQ(identity_of({.name = "other", .text = kText}), identity_of(file));
  EXPECT_NE(identity_of({.name = "my.net", .text = kText + " "}), identity_of(file));
}

TEST(ModelSource, RefusesWhatIsNoSmallFile) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "folder.toml");
  folder.write("large.toml", std::string(kMostModelBytes + 1, '#'));
  for (const char* name : {"missing.toml", "folder.toml", "large.toml"}) {
    try {
      read_model_source((folder / name).string());
      ADD_FAILURE() << "accepted " << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace ddp
