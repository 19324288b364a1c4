// A curve of bounded size from any number of values.
#pragma once

#include <cstddef>
#include <vector>

namespace ddp::report {

struct CurvePoint {
  double x = 0;              // of the last value
  double y = 0;              // weighted mean of the values
  double low = 0, high = 0;  // of the values
};

// Keeps every value while there are few. When there are kMost points, each two neighbours become one, and from then on
// a point is made of twice as many values. So all points but the last are made of equally many.
class Curve {
 public:
  static constexpr size_t kMost = 400;  // an even number

  // Values that are not finite, and those without a positive weight, are left out. A point of several values has the
  // mean Σ weight · y / Σ weight.
  void add(double x, double y, double weight = 1);

  std::vector<CurvePoint> points() const;
  double mean() const;  // weighted, of all values; NaN without values

 private:
  struct Bin {
    double x = 0, sum = 0, weight = 0, low = 0, high = 0;
    size_t values = 0;
  };
  static Bin merged(const Bin& a, const Bin& b);

  std::vector<Bin> bins_;
  size_t values_of_bin_ = 1;
};

}  // namespace ddp::report
