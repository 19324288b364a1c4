# The contract suite of the ops (backend.h). A program adds one of the backend files; a backend without cuDNN and
# cuBLASLt leaves out the layers.
set(DDP_OPS_CONTRACT
  batch_norm_test.cpp clipping_test.cpp dropout_test.cpp elementwise_test.cpp gradient_test.cpp optimizer_test.cpp
  pool2d_test.cpp softmax_test.cpp)
set(DDP_OPS_LAYERS conv2d_test.cpp linear_test.cpp)
list(TRANSFORM DDP_OPS_CONTRACT PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM DDP_OPS_LAYERS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
