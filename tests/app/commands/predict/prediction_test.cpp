#include "app/commands/predict/prediction.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

using Format = PredictionFormat;

const Prediction kFlower{
    .path = "a b/\"1\",2.jpg", .error = "", .classes = {{"daisy, white", 0.75f}, {"x\ny", 0.125f}}};
const Prediction kBroken{.path = "b\n.png", .error = "is empty"};
const Prediction kOtherBytes{.path = "caf\xe9.jpg", .error = "", .classes = {{"daisy", 1.0f}}};

TEST(Prediction, IsALineOfText) {
  EXPECT_EQ(prediction_header(Format::text, 2), "");
  EXPECT_EQ(prediction_line(Format::text, 2, kFlower), "a b/\"1\",2.jpg  daisy, white 0.750  x\\x0Ay 0.125\n");
  EXPECT_EQ(prediction_line(Format::text, 2, kBroken), "b\\x0A.png  error: is empty\n");
  EXPECT_EQ(prediction_line(Format::text, 1, kOtherBytes), "caf\\xE9.jpg  daisy 1.000\n");
}

TEST(Prediction, IsARowOfATable) {
  EXPECT_EQ(prediction_header(Format::csv, 2), "path,error,class1,probability1,class2,probability2\n");
  EXPECT_EQ(prediction_line(Format::csv, 2, kFlower),
            "\"a b/\"\"1\"\",2.jpg\",,\"daisy, white\",0.75,\"x\ny\",0.125\n");
  EXPECT_EQ(prediction_line(Format::csv, 2, kBroken), "\"b\n.png\",is empty,,,,\n");
  EXPECT_EQ(prediction_line(Format::csv, 1, kOtherBytes), "caf\xe9.jpg,,daisy,1\n");
}

TEST(Prediction, IsALineOfJson) {
  EXPECT_EQ(prediction_line(Format::jsonl, 2, kFlower),
            R"({"path":"a b/\"1\",2.jpg","predictions":[{"class":"daisy, white","probability":0.75},)"
            R"({"class":"x\ny","probability":0.125}]})"
            "\n");
  EXPECT_EQ(prediction_line(Format::jsonl, 2, kBroken), "{\"path\":\"b\\n.png\",\"error\":\"is empty\"}\n");
  EXPECT_EQ(prediction_line(Format::jsonl, 1, kOtherBytes),
            R"({"path":"caf\\xE9.jpg","predictions":[{"class":"daisy","probability":1.0}]})"
            "\n");
}

TEST(Prediction, OrdersClassesByProbability) {
  const std::vector<float> probabilities{0.125f, 0.25f, 0.25f, 0.375f};
  EXPECT_EQ(most_probable(probabilities, 3), (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(most_probable(probabilities, 9), (std::vector<int64_t>{3, 1, 2, 0}));
}

}  // namespace
}  // namespace ddp
