lightmill_test(ladder_statistics SOURCES statistics_test.cpp LIBRARIES lightmill_flags)
lightmill_test(ladder_probe SOURCES probe_test.cpp LIBRARIES lightmill::ladder_probe)
lightmill_test(ladder_analysis SOURCES analysis_test.cpp LIBRARIES lightmill::ladder_report nlohmann_json::nlohmann_json)
lightmill_test(ladder_page SOURCES page_test.cpp LIBRARIES lightmill::ladder_report)
