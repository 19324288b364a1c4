#include "app/inputs/model_source.h"

#include "core/error.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

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

TEST(ModelSource, SaysWhatANetworkOfTokensReads) {
  const auto completed = [](TokenInput given, const std::string& positions, const std::string& rows) {
    const ModelFile source{.name = "small",
                           .text = "layers = [ { embedding = 8, rows = " + rows +
                                   " }, { position_embedding = " + positions + " }, { linear = \"classes\" } ]\n"};
    const TokenInput input = complete(given, source, "there");
    return std::pair(input.length, input.vocabulary);
  };
  const std::string any = "\"classes\"";
  EXPECT_EQ(completed({}, "64", any), std::pair(int64_t{64}, int64_t{50257}));
  EXPECT_EQ(completed({}, "true", any), std::pair(int64_t{1024}, int64_t{50257}));
  EXPECT_EQ(completed({.vocabulary = 9}, "64", "9"), std::pair(int64_t{64}, int64_t{9}));
  EXPECT_EQ(completed({.length = 5, .vocabulary = 9}, "64", any), std::pair(int64_t{5}, int64_t{9}));
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

TEST(ModelSource, RefusesWhatIsNoText) {
  const TempFolder folder;
  const std::string long_stem(kLongestModelName + 1, 'x');
  folder.write("empty.toml", "");
  folder.write("latin.toml", "# caf\xe9\n" + kText);
  folder.write(long_stem + ".toml", kText);
  const auto refused = [&](const std::string& name, const std::string& message) {
    expect_error(Exit::model, {name, message}, [&] { read_model_source((folder / name).string()); });
  };
  refused("empty.toml", "is empty; it must describe a network");
  refused("latin.toml", "is no text in UTF-8");
  refused(long_stem + ".toml", "has 201 characters, and 1 to 200 are possible; write name = \"...\" in the file");
}

TEST(ModelSource, HasTheNameInTheFile) {
  const TempFolder folder;
  const std::string named = "name = \"my-net_2\"\n" + kText;
  for (const std::string& stem : {std::string("file"), std::string(kLongestModelName + 1, 'x')}) {
    folder.write(stem + ".toml", named);
    const ModelFile file = read_model_source((folder / (stem + ".toml")).string());
    EXPECT_EQ(file.name, "my-net_2");
    EXPECT_EQ(network_of(file, "there", {4, 4, 1}, 3).name(), "my-net_2");
  }
}

}  // namespace
}  // namespace ddp
