lightmill_test(frames_simulated SOURCES simulated_test.cpp npy_test.cpp LIBRARIES lightmill::frames)
lightmill_fuzzer(frames_npy SOURCES fuzz_npy.cpp LIBRARIES lightmill::frames)
