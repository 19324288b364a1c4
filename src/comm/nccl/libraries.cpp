#include "comm/nccl/communicator.h"

#include <nccl.h>

namespace ddp {

std::vector<LibraryVersion> nccl_libraries() {
  const auto number_of = [](int version) {
    return LibraryVersion::Number{version / 10000, version / 100 % 100, version % 100};
  };
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) version = 0;
  return {{"NCCL", number_of(NCCL_VERSION_CODE), number_of(version)}};
}

}  // namespace ddp
