lightmill_test(frames_simulated SOURCES simulated_test.cpp npy_test.cpp LIBRARIES lightmill::frames)
lightmill_test(frames_hdf5 SOURCES hdf5_test.cpp LIBRARIES lightmill::frames lightmill::hdf5)
lightmill_fuzzer(frames_npy SOURCES fuzz_npy.cpp LIBRARIES lightmill::frames)
lightmill_fuzzer(frames_hdf5 SOURCES fuzz_hdf5.cpp LIBRARIES lightmill::frames lightmill::hdf5)
