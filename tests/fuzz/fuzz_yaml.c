/* Any bytes as a YAML document: a tree or an error; every node has a place, mappings have unique keys, paths find their nodes.
 * What follows the first NUL is applied with yaml_set. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct yaml_node *node, bool placed, int depth) {
    if (depth > 40 || !node->text || (placed && (node->line < 1 || node->column < 1)))
        abort();
    if (node->type == YAML_SCALAR && node->child)
        abort();
    int n = 0;
    for (const struct yaml_node *c = node->child; c; c = c->next, n++) {
        if ((node->type == YAML_MAPPING) != (c->key != NULL) || (n < 100 && c->key && yaml_get(node, c->key) != c))
            abort();
        check(c, placed, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    size_t len = nul ? (size_t)(nul - data) : size;
    struct arena arena;
    struct yaml_node *root = NULL;
    struct err err = {0};
    arena_init(&arena, 4 << 20);
    int rc = yaml_parse(&arena, (const char *)data, len, "fuzz", &root, &err);
    if (rc ? root != NULL || err.code != rc || !err.message[0] : root == NULL)
        abort();
    if (!rc)
        check(root, true, 0);
    char *assignment = !rc && nul ? arena_strndup(&arena, (const char *)nul + 1, size - len - 1) : NULL;
    if (assignment && size - len - 1 < 200 && !yaml_set(&arena, root, assignment, &err)) {
        char key[200];
        size_t n = strcspn(assignment, "=");
        memcpy(key, assignment, n);
        key[n] = '\0';
        if (n < 100 && !yaml_path(root, key))
            abort();
    }
    arena_done(&arena);
    return 0;
}
