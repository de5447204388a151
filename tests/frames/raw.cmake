lightmill_test(frames_raw
  SOURCES frames_real_test.cpp
  LIBRARIES lightmill::frames)
