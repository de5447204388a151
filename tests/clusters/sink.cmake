lightmill_test(run SOURCES run_test.cpp verify_test.cpp LIBRARIES lightmill::run lightmill::hdf5)
