# proto: generated C from proto/brr/v1 and grpc's own health/reflection; lives in the build folder only.
