#include "app/inputs/model_info.h"

#include "app/inputs/token_sizes.h"
#include "core/error.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

ModelInfo flowers() {
  return {.model = "torchvision-resnet18",
          .image = {224, 160, 3},
          .classes = 3,
          .class_names = {"daisy, white", "line\nbreak", "tulipán"},
          .resize = 256,
          .interpolation = Interpolation::bicubic,
          .exif = false,
          .alpha = Alpha::white,
          .pixel_scale = pixel_scale_of({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})};
}

TEST(ModelInfo, ComesBackFromTheMetadata) {
  const Metadata metadata = flowers().to_metadata();
  EXPECT_EQ(metadata.at("model"), "torchvision-resnet18");
  EXPECT_NE(metadata.at("ddp_train").find(R"("mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225])"), std::string::npos)
      << metadata.at("ddp_train");
  const ModelInfo back = model_info_in(metadata, "file").value();
  EXPECT_EQ(back.image, (ImageShape{224, 160, 3}));
  EXPECT_EQ(back.class_names, flowers().class_names);
  EXPECT_EQ(back.transform().crop, (PictureSize{160, 224}));
  EXPECT_EQ(back.resize, 256);
  EXPECT_EQ(back.decode().interpolation, Interpolation::bicubic);
  EXPECT_FALSE(back.decode().exif);
  EXPECT_EQ(back.decode().alpha, Alpha::white);
  EXPECT_EQ(back.pixel_scale.scale, flowers().pixel_scale.scale);  // the same bits
  EXPECT_EQ(back.pixel_scale.shift, flowers().pixel_scale.shift);
  EXPECT_EQ(back.to_metadata(), metadata);
  EXPECT_FALSE(back.precision);
  ModelInfo bf16 = flowers();
  bf16.precision = Precision::bf16;
  EXPECT_EQ(model_info_in(bf16.to_metadata(), "file")->precision, Precision::bf16);
}

TEST(ModelInfo, DescribesImagesOfOneSize) {
  ModelInfo mnist{.model = "lenet", .image = {28, 28, 1}, .classes = 10};
  mnist.kind = TransformConfig::Kind::none;
  const ModelInfo back = model_info_in(mnist.to_metadata(), "file").value();
  EXPECT_EQ(back.kind, TransformConfig::Kind::none);
  EXPECT_EQ(back.decode().channels, 1);
  EXPECT_EQ(back.pixel_scale.scale[0], 1.0f / 255);
  EXPECT_EQ(back.class_name(7), "7");
}

TEST(ModelInfo, EscapesNamesThatAreNotUtf8) {
  ModelInfo info = flowers();
  info.class_names[1] = "caf\xe9";
  EXPECT_EQ(model_info_in(info.to_metadata(), "file")->class_name(1), "caf\\xE9");
}

TEST(ModelInfo, HasTheGraphOfAFile) {
  ModelInfo info = flowers();
  info.model = "mine";
  info.graph = "layers = [{ flatten = true }, { linear = \"classes\" }]\n# é\n";
  const Metadata metadata = info.to_metadata();
  const ModelInfo back = model_info_in(metadata, "file").value();
  EXPECT_EQ(back.graph, info.graph);
  EXPECT_FALSE(back.source().built_in);
  EXPECT_TRUE(flowers().source().built_in);
  EXPECT_EQ(back.to_metadata(), metadata);

  const auto expect_refused = [](const ModelInfo& wrong, const char* key) {
    try {
      model_info_in(wrong.to_metadata(), "a file");
      ADD_FAILURE() << "accepted " << wrong.model;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      EXPECT_NE(std::string(e.what()).find(fmt::format("has an invalid {}, ", key)), std::string::npos) << e.what();
    }
  };
  ModelInfo large = info, elsewhere = info, nameless = info;
  large.graph.resize(kMostModelBytes + 1, ' ');
  expect_refused(large, "graph");
  elsewhere.model = "../mine";  // the default name of an exported file
  expect_refused(elsewhere, "model");
  nameless.model.clear();
  expect_refused(nameless, "model");
}

TEST(ModelInfo, DescribesTokens) {
  ModelInfo info{.model = "gpt-tiny", .image = {64, 1, 1}, .classes = 257, .sequence_length = 64};
  EXPECT_FALSE(model_info_in(info.to_metadata(), "file")->vocabulary_hash);
  info.vocabulary_hash = 0x0123456789abcdef;
  info.graph = "layers = []\n";
  const Metadata metadata = info.to_metadata();
  const std::string& text = metadata.at("ddp_train");
  EXPECT_EQ(text.find(R"({"format":3,"model":"gpt-tiny","sequence_length":64,"graph":)"), 0u) << text;
  EXPECT_EQ(text.find("mean"), text.npos) << text;
  const ModelInfo back = model_info_in(metadata, "file").value();
  EXPECT_TRUE(back.reads_tokens());
  EXPECT_EQ(back.image, (ImageShape{64, 1, 1}));
  EXPECT_EQ(back.classes, 257);
  EXPECT_EQ(back.vocabulary_hash, info.vocabulary_hash);
  EXPECT_EQ(back.graph, info.graph);
  EXPECT_EQ(back.to_metadata(), metadata);

  ModelInfo largest = info;
  largest.classes = kMostVocabulary;
  largest.sequence_length = kLongestSequence;
  EXPECT_EQ(model_info_in(largest.to_metadata(), "file")->classes, kMostVocabulary);

  const auto expect_refused = [&](const char* part, const char* other, const char* message) {
    std::string wrong = text;
    wrong.replace(wrong.find(part), std::string(part).size(), other);
    expect_error(Exit::data, {message}, [&] { model_info_in({{"ddp_train", wrong}}, "file"); });
  };
  expect_refused(R"("format":3)", R"("format":2)", "has format 2");
  expect_refused(R"("format":3)", R"("format":4)", "has format 4; this program reads formats up to 3");
  expect_refused(":64", ":0", "has an invalid sequence_length");
  expect_refused("0123456789abcdef", "0123456789abcde", "has an invalid vocabulary");
  expect_refused("0123456789abcdef", "0123456789abcdeg", "has an invalid vocabulary");
}

TEST(ModelInfo, IsAbsentWithoutItsEntry) { EXPECT_FALSE(model_info_in({{"format", "pt"}}, "file")); }

TEST(ModelInfo, MissingAndWrongEntriesAreRefused) {
  const std::string good = flowers().to_metadata().at("ddp_train");
  const auto expect_refused = [&](const std::string& part, const std::string& other, const std::string& message) {
    std::string text = good;
    const size_t at = text.find(part);
    ASSERT_NE(at, std::string::npos) << part << " in " << text;
    text.replace(at, part.size(), other);
    try {
      model_info_in({{"ddp_train", text}}, "a file");
      ADD_FAILURE() << "accepted " << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      EXPECT_NE(std::string(e.what()).find("a file: its metadata ddp_train " + message), std::string::npos) << e.what();
    }
  };
  expect_refused("{", "[", "is not JSON");
  expect_refused("{", "{\"classes\":2,", "has \"classes\" twice");
  expect_refused(R"("format":1)", R"("format":)" + std::string(100'000, '['), "is nested too deeply");
  expect_refused(R"("format":1)", R"("format":2)", "has format 2");
  expect_refused(R"("model":)", R"("modell":)", "has no model, which must be a text");
  expect_refused(R"("image":[224,)", R"("image":[0,)", "has an invalid image");
  expect_refused(R"("image":[224,160,3])", R"("image":[224,160,2])", "has an invalid image");
  expect_refused(R"("image":[224,)", R"("image":[18446744073709551615,)", "has an invalid image");
  expect_refused(R"("classes":3)", R"("classes":4)", "has an invalid class_names, which must be a name for each class");
  expect_refused(R"("classes":3)", R"("classes":"3")", "has an invalid classes");
  expect_refused(R"("center")", R"("middle")", "has an invalid transform, which must be one of stretch, center, none");
  expect_refused(R"("resize":256)", R"("resize":200)", "has an invalid resize");
  expect_refused(R"("exif":"ignore")", R"("exif":true)", "has an invalid exif");
  expect_refused(R"("scale":[)", R"("scale":[1e39,)", "has an invalid scale");
  expect_refused(R"("shift":)", R"("shift":[0.5,1e300,0],"x":)", "has an invalid shift");
}

}  // namespace
}  // namespace ddp
