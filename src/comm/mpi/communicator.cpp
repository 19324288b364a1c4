#include "comm/mpi/communicator.h"

#include "comm/mpi/check.h"
#include "core/error.h"

namespace ddp {
namespace {

MPI_Comm duplicate(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  DDP_MPI(MPI_Comm_dup(parent, &comm));
  return comm;
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm parent, ProgressEngine& engine, Allreduce allreduce, int host)
      : engine_(engine),
        allreduce_(allreduce),
        host_number_(host),
        control_(duplicate(parent)),
        host_(control_, allreduce, host),
        queue_(parent, host_, allreduce),
        rank_(host_.config.rank),
        size_(static_cast<int>(std::ssize(host_.config.layout.host))) {
    engine_.attach(queue_);
  }
  ~MpiCommunicator() override {
    engine_.detach(queue_);
    if (queue_.idle()) MPI_Comm_free(&control_);
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

  Memory* memory() override { return allreduce_ == Allreduce::mpi ? nullptr : host_.window.get(); }
  std::string description() const override { return host_.description(); }
  std::string order_of_terms() const override { return host_.order_of_terms(); }
  bool sums_in_int8() const override { return allreduce_ != Allreduce::mpi; }
  HostPlace place() const override { return {host_.config.layout.host[rank_], host_.config.layout.hosts}; }
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
    DDP_MPI(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, control_,
                           &request));
    complete(request);
  }
  void barrier() override {
    MPI_Request request;
    DDP_MPI(MPI_Ibarrier(control_, &request));
    complete(request);
  }

  std::unique_ptr<Communicator> split(int colour) override {
    MPI_Comm part = MPI_COMM_NULL;
    DDP_MPI(MPI_Comm_split(control_, colour, rank_, &part));
    auto communicator = std::make_unique<MpiCommunicator>(part, engine_, allreduce_, host_number_);
    DDP_MPI(MPI_Comm_free(&part));
    return communicator;
  }

 private:
  ProgressEngine& engine_;
  const Allreduce allreduce_;
  const int host_number_;
  MPI_Comm control_;  // for all_reduce_host, barrier, split and allocations
  HostWindow host_;
  CollectiveQueue queue_;
  int rank_, size_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm parent, ProgressEngine& engine, Allreduce allreduce,
                                                    int host) {
  return std::make_unique<MpiCommunicator>(parent, engine, allreduce, host);
}

}  // namespace ddp
