// Keeps the lists of the pictures that a run does not use: skipped-training.txt and skipped-validation.txt.
#pragma once

#include "train/observers/run_observer.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddp {

class SkippedFiles final : public RunObserver {
 public:
  // `lists`: name and content of the files of the folder at the start. `require_in_place` throws where the folder has
  // been replaced.
  SkippedFiles(std::filesystem::path folder, std::function<void()> require_in_place,
               const std::map<std::string, std::string>& lists);

  void step(const StepResult&) override {}
  void evaluation(int64_t, int64_t, const Evaluation&, double) override {}
  void speed(int64_t, int64_t, const StepSpeed&) override {}
  void saved(const SaveOutcome&) override {}
  void excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t known,
                int64_t pictures) override;

 private:
  const std::filesystem::path folder_;
  const std::function<void()> require_in_place_;
  std::map<std::string, std::string> lists_;
  bool warned_ = false;  // that a list could not be written
};

}  // namespace ddp
