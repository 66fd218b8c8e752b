/* grpc.reflection.v1: what this daemon speaks, for tools that have no .proto files. Answers come from the descriptor
 * set in the program, which is walked anew for each question: some ten kilobytes, no index to keep. One question, one answer, in
 * order. */

#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "proto/descriptors.h"

enum { MAX_FILES = 64, MAX_SERVICES = 64, MAX_NAME = 256 };

typedef Grpc__Reflection__V1__ServerReflectionRequest Request;
typedef Grpc__Reflection__V1__ServerReflectionResponse Response;
typedef Grpc__Reflection__V1__ServiceResponse Service;

/* ---- the descriptor set: protobuf's wire format, as much of it as names need ---- */

struct bytes {
    const uint8_t *data;
    size_t len;
};

/* Numbers of fields in google/protobuf/descriptor.proto. */
enum { SET_FILE = 1, ANY_NAME = 1, FILE_PACKAGE = 2, FILE_IMPORT = 3, FILE_MESSAGE = 4, FILE_ENUM = 5, FILE_SERVICE = 6 };
enum { MESSAGE_FIELD = 2, MESSAGE_MESSAGE = 3, MESSAGE_ENUM = 4, MESSAGE_ONEOF = 8, ENUM_VALUE = 2, SERVICE_METHOD = 2 };
enum kind { KIND_FILE, KIND_MESSAGE, KIND_ENUM, KIND_SERVICE, KIND_MEMBER, KIND_NONE };

/* Which descriptors hold named descriptors of which kind, and in which field. */
static const struct {
    enum kind in, is;
    uint32_t field;
} members[] = {
    {KIND_FILE, KIND_MESSAGE, FILE_MESSAGE},       {KIND_FILE, KIND_ENUM, FILE_ENUM},
    {KIND_FILE, KIND_SERVICE, FILE_SERVICE},       {KIND_MESSAGE, KIND_MEMBER, MESSAGE_FIELD},
    {KIND_MESSAGE, KIND_MEMBER, MESSAGE_ONEOF},    {KIND_MESSAGE, KIND_ENUM, MESSAGE_ENUM},
    {KIND_MESSAGE, KIND_MESSAGE, MESSAGE_MESSAGE}, {KIND_ENUM, KIND_MEMBER, ENUM_VALUE},
    {KIND_SERVICE, KIND_MEMBER, SERVICE_METHOD},
};

static bool take_varint(struct bytes *in, uint64_t *ret) {
    *ret = 0;
    for (int shift = 0; shift < 64 && in->len; shift += 7) {
        uint8_t byte = *in->data++;
        in->len--;
        *ret |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* The next field that holds bytes; those that hold numbers are passed over. */
static bool take_field(struct bytes *in, uint32_t *ret_field, struct bytes *ret) {
    uint64_t key, len;
    while (take_varint(in, &key)) {
        if (!take_varint(in, &len)) /* the value itself, in a field of a number */
            return false;
        if ((key & 7) == 0)
            continue;
        if ((key & 7) != 2 || len > in->len)
            return false;
        *ret_field = (uint32_t)(key >> 3);
        *ret = (struct bytes){in->data, (size_t)len};
        in->data += len;
        in->len -= (size_t)len;
        return true;
    }
    return false;
}

/* The n-th text or message in this field, from 0; empty when there are fewer. */
static struct bytes nth(struct bytes in, uint32_t field, int n) {
    struct bytes value;
    uint32_t number;
    while (take_field(&in, &number, &value))
        if (number == field && n-- == 0)
            return value;
    return (struct bytes){NULL, 0};
}

static struct bytes name_of(struct bytes in) { return nth(in, ANY_NAME, 0); }

/* Empty behind the last file. */
static struct bytes file_at(int i) {
    return i < MAX_FILES ? nth((struct bytes){proto_descriptors, proto_descriptors_len}, SET_FILE, i) : (struct bytes){NULL, 0};
}

static bool same(struct bytes a, struct bytes b) { return a.len == b.len && !memcmp(a.data, b.data, a.len); }

/* Cut `prefix` off the front of a dotted name: *rest is what follows the dot, empty when nothing does. */
static bool cut(struct bytes name, struct bytes prefix, struct bytes *rest) {
    if (!prefix.len || name.len < prefix.len || memcmp(name.data, prefix.data, prefix.len))
        return false;
    if (name.len == prefix.len) {
        *rest = (struct bytes){NULL, 0};
        return true;
    }
    *rest = (struct bytes){name.data + prefix.len + 1, name.len - prefix.len - 1};
    return name.data[prefix.len] == '.' && rest->len;
}

/* Resolves a dotted name within a file, message, enum or service. */
static enum kind look_up(struct bytes in, enum kind kind, struct bytes name) {
    struct bytes value, rest;
    uint32_t field;
    while (take_field(&in, &field, &value))
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            if (members[i].in != kind || members[i].field != field)
                continue;
            enum kind found = KIND_NONE;
            if (cut(name, name_of(value), &rest))
                found = rest.len ? (members[i].is == KIND_ENUM ? KIND_NONE : look_up(value, members[i].is, rest)) : members[i].is;
            else if (members[i].is == KIND_ENUM) /* the values of an enum stand beside it */
                found = look_up(value, KIND_ENUM, name);
            if (found != KIND_NONE)
                return found;
        }
    return KIND_NONE;
}

/* Where a full name is defined: index of the file, -1 = nowhere. */
static int find_symbol(const char *symbol, enum kind *ret_kind) {
    struct bytes name = {(const uint8_t *)symbol, strlen(symbol)}, file, rest;
    for (int i = 0; (file = file_at(i)).len; i++)
        if (cut(name, nth(file, FILE_PACKAGE, 0), &rest) && (*ret_kind = look_up(file, KIND_FILE, rest)) != KIND_NONE)
            return i;
    return -1;
}

static int find_file(struct bytes name) {
    struct bytes file;
    for (int i = 0; (file = file_at(i)).len; i++)
        if (same(name_of(file), name))
            return i;
    return -1;
}

/* ---- answers ---- */

static bool send_response(struct rpc_call *call, const Request *in, Response *out) {
    out->valid_host = in->host;
    out->original_request = (Request *)(uintptr_t)in;
    return convert_send(call, &out->base);
}

static bool send_error(struct rpc_call *call, const Request *in, const struct err *err) {
    Response out = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = -err->code;
    error.error_message = (char *)(uintptr_t)err->message;
    out.message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    out.error_response = &error;
    return send_response(call, in, &out);
}

/* A file and what it imports, and what those import; the one asked for comes first. */
static bool send_file(struct rpc_call *call, const Request *in, int index) {
    Response out = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__FileDescriptorResponse files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData list[MAX_FILES];
    bool listed[MAX_FILES] = {0};
    struct bytes import;
    int order[MAX_FILES], n = 0;
    order[n++] = index;
    listed[index] = true;
    for (int i = 0; i < n; i++) {
        struct bytes file = file_at(order[i]);
        list[i] = (ProtobufCBinaryData){file.len, (uint8_t *)(uintptr_t)file.data};
        for (int k = 0; (import = nth(file, FILE_IMPORT, k)).len; k++) {
            int at = find_file(import);
            if (at >= 0 && at < MAX_FILES && !listed[at]) {
                listed[at] = true;
                order[n++] = at;
            }
        }
    }
    files.file_descriptor_proto = list;
    files.n_file_descriptor_proto = (size_t)n;
    out.message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    out.file_descriptor_response = &files;
    return send_response(call, in, &out);
}

static bool file_by_name(struct rpc_call *call, const Request *in) {
    struct err err;
    int index = find_file((struct bytes){(const uint8_t *)in->file_by_filename, strlen(in->file_by_filename)});
    if (index >= 0)
        return send_file(call, in, index);
    err_set(&err, ERR_NOT_FOUND, "there is no file '%.200s'; list_services and file_containing_symbol return the existing files",
            in->file_by_filename);
    return send_error(call, in, &err);
}

static bool file_by_symbol(struct rpc_call *call, const Request *in) {
    struct err err;
    enum kind kind;
    int index = find_symbol(in->file_containing_symbol, &kind);
    if (index >= 0)
        return send_file(call, in, index);
    err_set(&err, ERR_NOT_FOUND, "there is no symbol '%.200s'; list_services names the services", in->file_containing_symbol);
    return send_error(call, in, &err);
}

static bool is_message(const char *symbol, struct err *err) {
    enum kind kind = KIND_NONE;
    find_symbol(symbol, &kind);
    if (kind != KIND_MESSAGE)
        err_set(err, ERR_NOT_FOUND, "there is no message '%.200s'", symbol);
    return kind == KIND_MESSAGE;
}

/* No message here has extensions: proto3 knows them for options only, and none is defined. */
static bool extension(struct rpc_call *call, const Request *in) {
    const Grpc__Reflection__V1__ExtensionRequest *wanted = in->file_containing_extension;
    struct err err;
    if (is_message(wanted->containing_type, &err))
        err_set(&err, ERR_NOT_FOUND, "%.200s has no extension %d", wanted->containing_type, wanted->extension_number);
    return send_error(call, in, &err);
}

static bool extension_numbers(struct rpc_call *call, const Request *in) {
    Response out = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ExtensionNumberResponse none = GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
    struct err err;
    if (!is_message(in->all_extension_numbers_of_type, &err))
        return send_error(call, in, &err);
    none.base_type_name = in->all_extension_numbers_of_type;
    out.message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    out.all_extension_numbers_response = &none;
    return send_response(call, in, &out);
}

/* Every service of the set is served (svc_*.c). */
static bool list_services(struct rpc_call *call, const Request *in) {
    Response out = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ListServiceResponse services = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Service rows[MAX_SERVICES], *list[MAX_SERVICES];
    char names[MAX_SERVICES][MAX_NAME];
    struct bytes file, service;
    size_t n = 0;
    for (int i = 0; (file = file_at(i)).len; i++) {
        struct bytes package = nth(file, FILE_PACKAGE, 0);
        for (int k = 0; n < MAX_SERVICES && (service = nth(file, FILE_SERVICE, k)).len; k++) {
            struct bytes name = name_of(service);
            grpc__reflection__v1__service_response__init(&rows[n]);
            str_format(names[n], sizeof names[n], "%.*s.%.*s", (int)package.len, (const char *)package.data, (int)name.len,
                       (const char *)name.data);
            rows[n].name = names[n];
            list[n] = &rows[n];
            n++;
        }
    }
    services.service = list;
    services.n_service = n;
    out.message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    out.list_services_response = &services;
    return send_response(call, in, &out);
}

static bool answer(struct rpc_call *call, const Request *in) {
    struct err err;
    switch (in->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        return file_by_name(call, in);
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        return file_by_symbol(call, in);
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        return extension(call, in);
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        return extension_numbers(call, in);
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        return list_services(call, in);
    default:
        err_set(&err, ERR_INVALID, "the request is empty; expected a file, a symbol, an extension, or list_services");
        return send_error(call, in, &err);
    }
}

/* ---- the stream ---- */

static int message(struct rpc_call *call, const void *request, struct err *err) {
    (void)err;
    if (!answer(call, request))
        rpc_hold(call); /* the client reads its answers before it is asked for more */
    return 0;
}

static void writable(struct rpc_call *call) { rpc_release(call); }
static void half_close(struct rpc_call *call) { rpc_finish(call, NULL); }

const struct rpc_method svc_reflection[] = {
    {RPC_METHOD("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", ROLE_READ,
                grpc__reflection__v1__server_reflection_request, message),
     .client_stream = true, .half_close = half_close, .writable = writable},
    {.path = NULL},
};
