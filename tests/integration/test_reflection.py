#!/usr/bin/env python3
"""Server reflection: a client with no .proto file of brrd finds every service, makes their messages and calls one."""
import glob
import os
import re
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from daemon import PATIENCE, SOURCE, Daemon, temporary

NOT_FOUND, INVALID = grpc.StatusCode.NOT_FOUND.value[0], grpc.StatusCode.INVALID_ARGUMENT.value[0]


def descriptors_of(files, directory):
    """What protoc makes of .proto files: FileDescriptorProto by file name."""
    out = f"{directory}/set.bin"
    assert protoc.main(["protoc", f"-I{SOURCE}/proto", "--include_imports", f"--descriptor_set_out={out}", *files]) == 0
    with open(out, "rb") as f:
        return {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(f.read()).file}


def pool_of(files):
    """A DescriptorPool of FileDescriptorProtos by name, imports first."""
    pool, added = descriptor_pool.DescriptorPool(), set()

    def add(name):
        if name not in added:
            added.add(name)
            for needed in files[name].dependency:
                add(needed)
            pool.AddSerializedFile(files[name].SerializeToString())

    for name in files:
        add(name)
    return pool


def message_class(pool, name):
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))


class Reflection:
    def __init__(self, channel, directory):
        package = "grpc.reflection.v1"
        pool = pool_of(descriptors_of([f"{SOURCE}/proto/{package.replace('.', '/')}/reflection.proto"], directory))
        self.Request, self.Response = (message_class(pool, f"{package}.ServerReflection{x}") for x in ("Request", "Response"))
        self.call = channel.stream_stream(f"/{package}.ServerReflection/ServerReflectionInfo", self.Request.SerializeToString, self.Response.FromString)

    def ask(self, *questions):
        """Many requests on one stream; their answers."""
        requests = [self.Request(host="here", **q) for q in questions]
        answers = list(self.call(iter(requests), timeout=PATIENCE))
        assert len(answers) == len(requests)
        for request, answer in zip(requests, answers):
            assert answer.original_request == request and answer.valid_host == "here", answer
        return answers

    def files(self, **question):
        (answer,) = self.ask(question)
        assert answer.HasField("file_descriptor_response"), answer
        return [descriptor_pb2.FileDescriptorProto.FromString(data) for data in answer.file_descriptor_response.file_descriptor_proto]


def walk(reflection):
    """Everything, from the list of services alone."""
    (answer,) = reflection.ask({"list_services": "*"})
    services = [s.name for s in answer.list_services_response.service]
    assert len(set(services)) == len(services), services
    files = {}
    for service in services:
        found = reflection.files(file_containing_symbol=service)
        first = found[0]
        assert service in [f"{first.package}.{s.name}" for s in first.service], "the file asked for comes first"
        assert all(name in [f.name for f in found] for f in found for name in f.dependency), "imports come with it"
        files.update((f.name, f) for f in found)
    return services, files


def check_schema(services, files, directory):
    """It is what the .proto files say."""
    paths = glob.glob(f"{SOURCE}/proto/**/*.proto", recursive=True)
    wanted = descriptors_of(paths, directory)
    assert {f"{f.package}.{s.name}" for f in wanted.values() for s in f.service} == set(services), services
    used = {name: f for name, f in wanted.items() if name in files}
    assert used == files and set(wanted) == set(files), sorted(files)
    assert "grpc.health.v1.Health" in services and "brr.v1.Stream" in services, services
    assert not any(f.extension for f in files.values()), "extensions would have to be found by file_containing_extension"


def check_served(channel, pool, services):
    """Every method that reflection names exists: a request that is no message is read, and refused for that."""
    for service in services:
        for method in pool.FindServiceByName(service).methods:
            path = f"/{service}/{method.name}"
            try:
                list(channel.stream_stream(path)(iter([b"\xff"]), timeout=PATIENCE))
                raise AssertionError(f"{path} took bytes that are no message")
            except grpc.RpcError as e:
                assert e.code() == grpc.StatusCode.INVALID_ARGUMENT, (path, e)


def call_version(channel, pool):
    """A real call, with messages made from what reflection said."""
    method = pool.FindServiceByName("brr.v1.Admin").FindMethodByName("Version")
    request, response = (message_class(pool, t.full_name) for t in (method.input_type, method.output_type))
    call = channel.unary_unary(f"/{method.containing_service.full_name}/{method.name}", request.SerializeToString, response.FromString)
    answer = call(request(), timeout=PATIENCE)
    assert re.match(r"\d+\.\d+", answer.version), answer


def check_symbols(reflection, files):
    for name, file in files.items():
        assert reflection.files(file_by_filename=name)[0] == file
    jobs = files["brr/v1/jobs.proto"].name
    for symbol in ("brr.v1.Jobs", "brr.v1.Jobs.Submit", "brr.v1.Job", "brr.v1.Job.id", "brr.v1.JobState", "brr.v1.JOB_STATE_RUNNING"):
        assert reflection.files(file_containing_symbol=symbol)[0].name == jobs, symbol
    nested = reflection.files(file_containing_symbol="grpc.health.v1.HealthCheckResponse.ServingStatus")
    assert [f.name for f in nested] == ["grpc/health/v1/health.proto"], nested
    assert reflection.files(file_containing_symbol="grpc.health.v1.HealthCheckResponse.SERVING") == nested, "an enum's values stand beside it"
    assert reflection.files(file_containing_symbol="brr.v1.ClientMessage.kind")[0].name == "brr/v1/stream.proto", "a oneof"


def check_refusals(reflection):
    unknown = ["brr.v1.Nothing", "brr.v1.Jobs.Nothing", "brr.v1.JobState.JOB_STATE_RUNNING", "brr.v1", "brr.v1.", "brr.v1.Job.", "Jobs", "", "." * 500]
    questions = [{"file_containing_symbol": s} for s in unknown]
    questions += [{"file_by_filename": s} for s in ("brr/v1/nothing.proto", "jobs.proto", "", "/etc/passwd")]
    questions += [{"all_extension_numbers_of_type": s} for s in ("brr.v1.Nothing", "brr.v1.JobState", "brr.v1.Jobs")]
    questions += [{"file_containing_extension": {"containing_type": t, "extension_number": 9}} for t in ("brr.v1.Job", "brr.v1.Nothing")]
    for question, answer in zip(questions, reflection.ask(*questions)):
        assert answer.error_response.error_code == NOT_FOUND and answer.error_response.error_message, (question, answer)
    assert "brr.v1.Nothing" in reflection.ask(questions[0])[0].error_response.error_message
    none, empty = reflection.ask({"all_extension_numbers_of_type": "brr.v1.Job"}, {})
    assert none.all_extension_numbers_response.base_type_name == "brr.v1.Job", none
    assert list(none.all_extension_numbers_response.extension_number) == []
    assert empty.error_response.error_code == INVALID, empty


def check_many(reflection):
    """More answers than the daemon queues, each in its turn; a stream that asks nothing ends well."""
    questions = [{"file_by_filename": f"{i}.proto"} if i % 3 else {"file_containing_symbol": "brr.v1.Jobs"} for i in range(500)]
    answers = reflection.ask(*questions)
    assert [a.HasField("error_response") for a in answers] == [bool(i % 3) for i in range(500)]
    assert reflection.ask() == []


def main():
    with temporary() as tmp:
        daemon = Daemon(tmp).start()
        with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
            reflection = Reflection(channel, tmp)
            services, files = walk(reflection)
            check_schema(services, files, tmp)
            pool = pool_of(files)
            check_served(channel, pool, services)
            call_version(channel, pool)
            check_symbols(reflection, files)
            check_refusals(reflection)
            check_many(reflection)
        assert os.path.exists(daemon.socket) and daemon.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
