lightmill_test(ladder_statistics SOURCES statistics_test.cpp LIBRARIES lightmill_flags)
lightmill_test(ladder_probe SOURCES probe_test.cpp LIBRARIES lightmill::ladder_probe)
