lightmill_test(frames_raw
  SOURCES
    frame_numbers_test.cpp
    frames_real_test.cpp
    master_test.cpp
    raw_test.cpp
    source_test.cpp
  LIBRARIES lightmill::frames)
lightmill_fuzzer(frames_master SOURCES fuzz_master.cpp LIBRARIES lightmill::frames)
lightmill_fuzzer(frames_raw SOURCES fuzz_raw.cpp LIBRARIES lightmill::frames)
lightmill_fuzzer(frames_dat SOURCES fuzz_dat.cpp LIBRARIES lightmill::frames)
