lightmill_test(frames_simulated SOURCES simulated_test.cpp LIBRARIES lightmill::frames)
