#include "comm/mpi/communicator.h"

#include "comm/mpi/check.h"
#include "core/error.h"

namespace ddp {
namespace {

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm parent, ProgressEngine& engine, Allreduce allreduce)
      : engine_(engine), allreduce_(allreduce), queue_(parent, allreduce) {
    DDP_MPI(MPI_Comm_dup(parent, &host_));
    DDP_MPI(MPI_Comm_rank(host_, &rank_));
    DDP_MPI(MPI_Comm_size(host_, &size_));
    engine_.attach(queue_);
  }
  ~MpiCommunicator() override {
    engine_.detach(queue_);
    if (queue_.idle()) MPI_Comm_free(&host_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Sequence all_reduce(DeviceSpan span) override { return engine_.start(queue_, {Collective::Kind::all_reduce, span}); }
  Sequence reduce_scatter(DeviceSpan span) override {
    DDP_EXPECT(span.count % size_ == 0);
    return engine_.start(queue_, {Collective::Kind::reduce_scatter, span});
  }
  Sequence all_gather(DeviceSpan span) override {
    DDP_EXPECT(span.count % size_ == 0);
    return engine_.start(queue_, {Collective::Kind::all_gather, span});
  }
  Sequence broadcast(DeviceSpan span, int root) override {
    return engine_.start(queue_, {Collective::Kind::broadcast, span, root});
  }

  Sequence completed() const override { return queue_.completed(); }
  void record_done_times() override {
    engine_.locked([this] { queue_.record_done_times(); });
  }
  std::optional<int64_t> done_ns(Sequence n) const override {
    return engine_.locked([&] { return queue_.done_ns(n); });
  }
  void wait(Sequence n) override { engine_.wait(queue_, n); }
  void progress() override { engine_.progress(); }

  void all_reduce_host(std::span<double> values) override {
    MPI_Request request;
    DDP_MPI(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, host_,
                           &request));
    complete(request);
  }
  void barrier() override {
    MPI_Request request;
    DDP_MPI(MPI_Ibarrier(host_, &request));
    complete(request);
  }

  std::unique_ptr<Communicator> split(int colour) override {
    MPI_Comm part = MPI_COMM_NULL;
    DDP_MPI(MPI_Comm_split(host_, colour, rank_, &part));
    auto communicator = std::make_unique<MpiCommunicator>(part, engine_, allreduce_);
    DDP_MPI(MPI_Comm_free(&part));
    return communicator;
  }

 private:
  ProgressEngine& engine_;
  Allreduce allreduce_;
  CollectiveQueue queue_;
  MPI_Comm host_ = MPI_COMM_NULL;  // for all_reduce_host, barrier and split
  int rank_ = 0, size_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm parent, ProgressEngine& engine, Allreduce allreduce) {
  return std::make_unique<MpiCommunicator>(parent, engine, allreduce);
}

}  // namespace ddp
