// The page of a learning-rate range test.
#pragma once

#include "report/document.h"

#include <string>
#include <vector>

namespace ddp::report {

struct LrStep {
  double lr = 0, loss = 0, smoothed = 0;
};

struct LrRecord {
  std::string subject;                            // such as "lenet on fashion-mnist"; any text
  std::vector<std::string> lines;                 // what was tested, and the result; any text
  std::vector<LrStep> steps;                      // ascending rates above 0
  double suggested = 0, steepest = 0, tenth = 0;  // rates; 0: none
};

std::string lr_page(const LrRecord& record, const PageInfo& info);

}  // namespace ddp::report
