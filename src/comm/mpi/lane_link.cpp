#include "comm/mpi/lane_link.h"

#include "comm/mpi/int8_exchange.h"
#include "comm/mpi/ring.h"
#include "comm/mpi/small_exchange.h"

namespace ddp {
namespace {

class LaneLink final : public HostLink {
 public:
  LaneLink(MPI_Comm lane, const BlockRule& rule, int tag)
      : rule_(rule), tag_(2 * tag), ring_(lane), int8_(lane), small_(lane) {}

  void start(std::byte* data, const Residual& residual, const Pieces& pieces, Collective::Kind kind, DType dtype,
             HostPieces& host) override {
    route_ = residual ? Route::int8 : Route::ring;
    if (residual)
      int8_.start(data, residual, pieces, kind, host, tag_);
    else
      ring_.start(data, pieces, kind, dtype, host, tag_);
  }
  void start_small(std::byte* data, int64_t offset, int64_t bytes, DType dtype) override {
    route_ = Route::small;
    small_.start(data, offset, bytes, rule_, dtype, tag_ + 1);
  }
  bool advance() override {
    switch (route_) {
      case Route::ring: return ring_.advance();
      case Route::int8: return int8_.advance();
      default: return small_.advance();
    }
  }
  int64_t messages() const override { return ring_.messages() + int8_.messages() + small_.messages(); }
  void abandon() override {
    ring_.abandon();
    int8_.abandon();
    small_.abandon();
  }

 private:
  const BlockRule rule_;
  const int tag_;
  enum class Route : uint8_t { ring, int8, small } route_ = Route::small;
  Ring ring_;
  Int8Exchange int8_;
  SmallExchange small_;
};

}  // namespace

std::unique_ptr<HostLink> make_lane_link(MPI_Comm lane, const BlockRule& rule, int tag) {
  return std::make_unique<LaneLink>(lane, rule, tag);
}

}  // namespace ddp
