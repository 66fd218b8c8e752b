/* Any bytes as JSON: a tree or an error; what the writer makes of a tree reads back and writes the same again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_tree(struct json_writer *w, const char *key, const struct json *j) {
    struct json_cursor cursor = {0};
    const struct json *value;
    const char *name;
    switch (json_kind(j)) {
    case JSON_KIND_OBJECT:
        json_begin_object(w, key);
        while (json_next(j, &cursor, &name, &value))
            write_tree(w, name, value);
        json_end(w, '}');
        break;
    case JSON_KIND_ARRAY:
        json_begin_array(w, key);
        for (size_t i = 0; i < json_count(j); i++)
            write_tree(w, NULL, json_at(j, i));
        json_end(w, ']');
        break;
    case JSON_KIND_STRING:
        json_put_str(w, key, json_str(j, NULL));
        break;
    case JSON_KIND_INTEGER:
        json_put_i64(w, key, json_i64(j, 0));
        break;
    case JSON_KIND_REAL:
        json_put_f64(w, key, json_f64(j, 0));
        break;
    case JSON_KIND_BOOL:
        json_put_bool(w, key, json_bool(j, false));
        break;
    default:
        json_put_null(w, key);
    }
}

static char *written(const struct json *root) {
    struct str out;
    struct json_writer w;
    str_init(&out, 64 << 20);
    json_writer_init(&w, &out);
    write_tree(&w, NULL, root);
    char *text = str_take(&out);
    if (!text)
        abort();
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json *root = NULL, *again = NULL;
    struct err err = {0};
    int rc = json_parse((const char *)data, size, "fuzz", &root, &err);
    if (rc) {
        if (root || err.code != rc || !err.message[0])
            abort();
        return 0;
    }
    char *first = written(root);
    if (json_parse(first, strlen(first), "written", &again, &err))
        abort();
    char *second = written(again);
    if (strcmp(first, second))
        abort();
    free(first);
    free(second);
    json_free(root);
    json_free(again);
    return 0;
}
