lightmill_test(reduce SOURCES reduce_test.cpp LIBRARIES lightmill::run)
lightmill_test(run SOURCES run_test.cpp sink_test.cpp verify_test.cpp LIBRARIES lightmill::run lightmill::hdf5 LABELS threads)
lightmill_fuzzer(clust SOURCES fuzz_clust.cpp LIBRARIES lightmill::sink)
lightmill_fuzzer(result SOURCES fuzz_result.cpp LIBRARIES lightmill::run lightmill::hdf5)
