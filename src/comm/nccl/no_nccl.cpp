#include "comm/nccl/communicator.h"
#include "core/error.h"

namespace ddp {
namespace {

constexpr const char* kReason = "NCCL needs CUDA, but this program was built without CUDA: build the preset \"cuda\"";

}  // namespace

void set_nccl_variables(const NcclConfig&, int) { fail(Exit::device, kReason); }

std::unique_ptr<Communicator> make_nccl_communicator(Device&, Communicator&, const NcclConfig&) {
  fail(Exit::device, kReason);
}

std::string describe_nccl() { fail(Exit::device, kReason); }

std::vector<LibraryVersion> nccl_libraries() { return {}; }

}  // namespace ddp
