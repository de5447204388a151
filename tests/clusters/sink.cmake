lightmill_test(run SOURCES run_test.cpp LIBRARIES lightmill::run lightmill::frames)
