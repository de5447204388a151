lightmill_test(frames_raw
  SOURCES
    frame_numbers_test.cpp
    frames_real_test.cpp
    master_test.cpp
    raw_test.cpp
    source_test.cpp
  LIBRARIES lightmill::frames)
