lightmill_test(find_backends SOURCES find_backends_test.cpp LIBRARIES lightmill::find)
