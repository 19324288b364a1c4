// The seconds that some work takes, and the median of measured values; of an even number of values, the upper one.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace ddp {

template <class Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median in milliseconds of `rounds` rounds of the work, after two others.
template <class Prepare, class Work>
double median_milliseconds(int rounds, const Prepare& prepare, const Work& work) {
  std::vector<double> times;
  for (int round = 0; round < rounds + 2; ++round) {
    prepare();
    const double seconds = seconds_of(work);
    if (round >= 2) times.push_back(1000 * seconds);
  }
  return median(times);
}

}  // namespace ddp
