# What every target of the project links: language level, warnings, and the flags that the
# promise of bit-identical results rests on (docs/algorithms/clusters.md).
add_library(lightmill_flags INTERFACE)
target_compile_features(lightmill_flags INTERFACE cxx_std_20)
target_include_directories(lightmill_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(lightmill_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-fast-math;-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion;-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651).
  target_compile_options(lightmill_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# nvcc contracts multiplications and additions unless told not to. CMake 3.25 does not know C++20 of nvcc 13.
target_compile_options(lightmill_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;-Xcompiler=-ffp-contract=off;-Xcompiler=-Wall;-Xcompiler=-Wno-unknown-pragmas>)
if(LIGHTMILL_WERROR)
  target_compile_options(lightmill_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(LIGHTMILL_SANITIZE)
  target_compile_options(lightmill_flags INTERFACE -fsanitize=${LIGHTMILL_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(lightmill_flags INTERFACE -fsanitize=${LIGHTMILL_SANITIZE})
  if(LIGHTMILL_SANITIZE MATCHES undefined)
    target_compile_options(lightmill_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(LIGHTMILL_FUZZ)
  # The fuzzers find their way by the code they reach, in the libraries too.
  target_compile_options(lightmill_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# lightmill_library(name SOURCES ... PUBLIC deps... PRIVATE deps...) makes lightmill::name.
function(lightmill_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(lightmill_${name} STATIC ${arg_SOURCES})
  add_library(lightmill::${name} ALIAS lightmill_${name})
  set_target_properties(lightmill_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(lightmill_${name} PUBLIC lightmill_flags ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
endfunction()

# lightmill_cuda_sources(name sources…): kernels of a library; nothing in a build without CUDA.
function(lightmill_cuda_sources name)
  if(LIGHTMILL_CUDA)
    target_sources(lightmill_${name} PRIVATE ${ARGN})
    target_compile_definitions(lightmill_${name} PRIVATE LIGHTMILL_CUDA)
    target_link_libraries(lightmill_${name} PRIVATE CUDA::cudart_static)
  endif()
endfunction()

# lightmill_test(name SOURCES ... LIBRARIES ...) makes one GoogleTest program, registered as one
# ctest entry per test case so that the counts are those of the cases. LABELS threads: also run under
# the thread sanitizer.
function(lightmill_test name)
  if(NOT LIGHTMILL_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE lightmill_flags ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(test_${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 900 LABELS "${arg_LABELS}")
endfunction()

# lightmill_fuzzer(name SOURCES ... LIBRARIES ...): a libFuzzer program fuzz_<name>.
function(lightmill_fuzzer name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(LIGHTMILL_FUZZ)
    add_executable(fuzz_${name} ${arg_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE lightmill_flags ${arg_LIBRARIES})
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    if(NOT TARGET fuzzers)
      add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers fuzz_${name})
  endif()
endfunction()
