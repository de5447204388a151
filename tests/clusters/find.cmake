lightmill_test(find SOURCES pedestal_test.cpp find_golden_test.cpp find_api_test.cpp find_backends_test.cpp find_cuda_test.cpp stream_finder_test.cpp
  LIBRARIES lightmill::find lightmill::cuda LABELS threads)
lightmill_test(workload SOURCES workload_test.cpp LIBRARIES lightmill::find)
lightmill_fuzzer(find SOURCES fuzz_find.cpp LIBRARIES lightmill::find)
