# CUDA: which generations the kernels are made for, and the flags that keep their arithmetic the definition's.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # Ampere, Hopper and Blackwell as machine code; what comes after them through the last one's virtual code.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 120)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin REQUIRED)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)  # the runtime, linked statically: it finds the driver at run time
list(GET CMAKE_CUDA_ARCHITECTURES 0 LIGHTMILL_CUDA_OLDEST)
string(REGEX MATCH "^[0-9]+" LIGHTMILL_CUDA_OLDEST "${LIGHTMILL_CUDA_OLDEST}")
