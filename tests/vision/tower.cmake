lightmill_test(vision_ops SOURCES ops_test.cpp LIBRARIES lightmill::vision_ops)
lightmill_test(vision_weights SOURCES weights_test.cpp LIBRARIES lightmill::vision_weights)
lightmill_test(vision_tower SOURCES tower_test.cpp LIBRARIES lightmill::vision_tower LABELS threads)
