# A program with the ladder's worker in it, as the runner's tests need one.
add_executable(ladder_test_worker worker_main.cpp)
target_link_libraries(ladder_test_worker PRIVATE lightmill::subjects lightmill::ladder_run)
lightmill_test(ladder_plan SOURCES plan_test.cpp LIBRARIES lightmill::subjects)
lightmill_test(ladder_gate SOURCES gate_test.cpp LIBRARIES lightmill::ladder_gate)
lightmill_test(ladder_run SOURCES run_test.cpp rows_test.cpp LIBRARIES lightmill::subjects lightmill::ladder_run)
if(LIGHTMILL_TESTS)
  add_dependencies(test_ladder_run ladder_test_worker)
  target_compile_definitions(test_ladder_run PRIVATE
    LIGHTMILL_TEST_WORKER="$<TARGET_FILE:ladder_test_worker>" LIGHTMILL_LADDERS="${PROJECT_SOURCE_DIR}/ladders"
    LIGHTMILL_TEST_CXX="${CMAKE_CXX_COMPILER}")
  target_compile_definitions(test_ladder_plan PRIVATE LIGHTMILL_LADDERS="${PROJECT_SOURCE_DIR}/ladders")
endif()

# Two ages of NVIDIA's management library, for machines without one.
if(LIGHTMILL_TESTS)
  add_library(fake_nvml MODULE fake_nvml.cpp)
  add_library(fake_nvml_old MODULE fake_nvml.cpp)
  target_compile_definitions(fake_nvml_old PRIVATE FAKE_NVML_OLD)
  target_link_libraries(fake_nvml PRIVATE lightmill_flags)
  target_link_libraries(fake_nvml_old PRIVATE lightmill_flags)
endif()
lightmill_test(ladder_gpu SOURCES gpu_test.cpp LIBRARIES lightmill::ladder_clock)
if(LIGHTMILL_TESTS)
  add_dependencies(test_ladder_gpu fake_nvml fake_nvml_old)
  add_dependencies(test_ladder_run fake_nvml)
  target_compile_definitions(test_ladder_run PRIVATE LIGHTMILL_FAKE_NVML="$<TARGET_FILE:fake_nvml>")
  target_compile_definitions(test_ladder_gpu PRIVATE
    LIGHTMILL_FAKE_NVML="$<TARGET_FILE:fake_nvml>" LIGHTMILL_FAKE_NVML_OLD="$<TARGET_FILE:fake_nvml_old>")
endif()
