lightmill_test(reduce SOURCES reduce_test.cpp LIBRARIES lightmill::run)
lightmill_test(run SOURCES run_test.cpp verify_test.cpp LIBRARIES lightmill::run lightmill::hdf5)
