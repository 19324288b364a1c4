// The names of the settings of the input: on the command line, in the metadata of a model and in messages.
#pragma once

#include "core/error.h"
#include "data/augment/policy.h"
#include "data/codec/picture.h"
#include "data/transform.h"
#include "ops/precision.h"

#include <string>
#include <utility>
#include <vector>

namespace ddp {

template <class Value>
using Names = std::vector<std::pair<std::string, Value>>;

inline const Names<TransformConfig::Kind> kTransformNames = {{"rrc", TransformConfig::Kind::rrc},
                                                             {"resize-crop", TransformConfig::Kind::resize_crop},
                                                             {"stretch", TransformConfig::Kind::stretch},
                                                             {"center", TransformConfig::Kind::center},
                                                             {"none", TransformConfig::Kind::none}};
inline const Names<Interpolation> kInterpolationNames = {
    {"bilinear", Interpolation::bilinear}, {"bicubic", Interpolation::bicubic}, {"nearest", Interpolation::nearest}};
inline const Names<AutoAugmentConfig::Policy> kAutoAugmentNames = {{"none", AutoAugmentConfig::Policy::none},
                                                                   {"ta_wide", AutoAugmentConfig::Policy::ta_wide},
                                                                   {"ra", AutoAugmentConfig::Policy::ra}};
inline const Names<Alpha> kAlphaNames = {{"drop", Alpha::drop}, {"white", Alpha::white}, {"black", Alpha::black}};
inline const Names<bool> kExifNames = {{"apply", true}, {"ignore", false}};
inline const Names<Precision> kPrecisionNames = {
    {"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}};

template <class Value>
const std::string& name_in(const Names<Value>& names, Value value) {
  for (const auto& [name, named] : names)
    if (named == value) return name;
  fail(Exit::internal, "a setting of the input has no name");
}

}  // namespace ddp
