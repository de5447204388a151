lightmill_test(vision_ops SOURCES ops_test.cpp LIBRARIES lightmill::vision_ops)
lightmill_test(vision_weights SOURCES weights_test.cpp LIBRARIES lightmill::vision_weights)
lightmill_test(vision_tower SOURCES tower_test.cpp LIBRARIES lightmill::vision_tower LABELS threads)
lightmill_test(vision_embed SOURCES embed_test.cpp LIBRARIES lightmill::vision_embed PNG::PNG LABELS threads)
# The verbs from end to end: one ctest entry for each test method of embed_program_test.py.
set(script ${CMAKE_CURRENT_SOURCE_DIR}/embed_program_test.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
find_program(LIGHTMILL_PYTHON3 NAMES /usr/bin/python3 python3 REQUIRED)  # with numpy and Pillow
file(STRINGS ${script} lines REGEX "^    def test_")
foreach(line IN LISTS lines)
  if(line MATCHES "def (test_[a-z0-9_]+)")
    add_test(NAME Program.Embed.${CMAKE_MATCH_1} COMMAND ${LIGHTMILL_PYTHON3} ${script} $<TARGET_FILE:lightmill> Embed.${CMAKE_MATCH_1})
    set_tests_properties(Program.Embed.${CMAKE_MATCH_1} PROPERTIES TIMEOUT 600)
  endif()
endforeach()
# For tools/vision_oracle.py.
add_executable(vision_stages stages_main.cpp)
target_link_libraries(vision_stages PRIVATE lightmill_flags lightmill::vision_tower)
