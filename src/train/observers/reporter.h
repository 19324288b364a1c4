// Passes the events of a run on to its observers. Only rank 0 has observers.
#pragma once

#include "train/observers/run_observer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

class Reporter final : public RunObserver {
 public:
  void add(std::unique_ptr<RunObserver> observer) { observers_.push_back(std::move(observer)); }

  void step(const StepResult& result) override {
    for (const auto& observer : observers_) observer->step(result);
  }
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds) override {
    for (const auto& observer : observers_) observer->evaluation(epoch, step, evaluation, seconds);
  }
  void early_stop(int64_t epoch, int64_t step, const EarlyStopState& state) override {
    for (const auto& observer : observers_) observer->early_stop(epoch, step, state);
  }
  void speed(int64_t epoch, int64_t step, const StepSpeed& speed) override {
    for (const auto& observer : observers_) observer->speed(epoch, step, speed);
  }
  void balanced(int64_t epoch, int64_t step, const std::vector<int64_t>& shares,
                const std::vector<double>& speeds) override {
    for (const auto& observer : observers_) observer->balanced(epoch, step, shares, speeds);
  }
  void saved(const SaveOutcome& outcome) override {
    for (const auto& observer : observers_) observer->saved(outcome);
  }
  void timeline(const StepTimeline& timeline) override {
    for (const auto& observer : observers_) observer->timeline(timeline);
  }
  void excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t known,
                int64_t pictures) override {
    for (const auto& observer : observers_) observer->excluded(part, broken, known, pictures);
  }
  void exclusions_of_epoch(int64_t epoch, int64_t step, int64_t samples, int64_t excluded) override {
    for (const auto& observer : observers_) observer->exclusions_of_epoch(epoch, step, samples, excluded);
  }
  void gradients(const std::vector<std::string>& zero) override {
    for (const auto& observer : observers_) observer->gradients(zero);
  }
  void flush() override {
    for (const auto& observer : observers_) observer->flush();
  }
  void close(bool stopped) override {
    for (const auto& observer : observers_) observer->close(stopped);
  }

 private:
  std::vector<std::unique_ptr<RunObserver>> observers_;
};

}  // namespace ddp
