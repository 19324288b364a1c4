#include "comm/mpi/lane_link.h"

#include "comm/mpi/ring.h"
#include "comm/mpi/small_exchange.h"

namespace ddp {
namespace {

class LaneLink final : public HostLink {
 public:
  LaneLink(MPI_Comm lane, const BlockRule& rule, int tag) : rule_(rule), tag_(2 * tag), ring_(lane), small_(lane) {}

  void start(std::byte* data, const Pieces& pieces, Collective::Kind kind, DType dtype, HostPieces& host) override {
    in_ring_ = true;
    ring_.start(data, pieces, kind, dtype, host, tag_);
  }
  void start_small(std::byte* data, int64_t offset, int64_t bytes, DType dtype) override {
    in_ring_ = false;
    small_.start(data, offset, bytes, rule_, dtype, tag_ + 1);
  }
  bool advance() override { return in_ring_ ? ring_.advance() : small_.advance(); }
  int64_t messages() const override { return ring_.messages() + small_.messages(); }
  void abandon() override {
    ring_.abandon();
    small_.abandon();
  }

 private:
  const BlockRule rule_;
  const int tag_;
  bool in_ring_ = false;
  Ring ring_;
  SmallExchange small_;
};

}  // namespace

std::unique_ptr<HostLink> make_lane_link(MPI_Comm lane, const BlockRule& rule, int tag) {
  return std::make_unique<LaneLink>(lane, rule, tag);
}

}  // namespace ddp
