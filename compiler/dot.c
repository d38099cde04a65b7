#include "compiler/dot.h"

static void print_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

/* What a reader looks for first: products, reductions, loops, movement of data. */
static const char *colour_of(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_DOT:
    case OP_CONVOLUTION: return "#c6dbef";
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_SCAN:
    case OP_SORT:
    case OP_SCATTER: return "#fdd0a2";
    case OP_FUSION: return "#c7e9c0";
    case OP_WHILE:
    case OP_CONDITIONAL:
    case OP_CALL: return "#dadaeb";
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_IOTA: return "#f0f0f0";
    case OP_COPY:
    case OP_TRANSPOSE:
    case OP_CONCATENATE:
    case OP_GATHER:
    case OP_DYNAMIC_SLICE:
    case OP_DYNAMIC_UPDATE_SLICE: return "#fee0d2";
    default: return "#ffffff";
    }
}

/* What tells this instruction from others of its operation. */
static void print_detail(FILE *out, const struct hlo_instr *instr) {
    const struct literal *literal = instr->literal;
    switch (instr->opcode) {
    case OP_FUSION:
        fprintf(out, " %s", enum_word_name((int)instr_int(instr, ATTR_FUSION_KIND, 0)));
        break;
    case OP_COMPARE:
        fprintf(out, " %s", enum_word_name((int)instr_int(instr, ATTR_DIRECTION, 0)));
        break;
    case OP_GET_TUPLE_ELEMENT:
        fprintf(out, " %lld", (long long)instr_int(instr, ATTR_INDEX, 0));
        break;
    case OP_PARAMETER: fprintf(out, " %lld", (long long)instr->parameter); break;
    case OP_CONSTANT:
        if (!literal || !literal->data || instr->shape->count != 1) break;
        if (element_type_is_float(instr->shape->type))
            fprintf(out, " %.9g", literal_get_double(literal, 0));
        else if (!element_type_is_complex(instr->shape->type))
            fprintf(out, " %lld", (long long)literal_get_int(literal, 0));
        break;
    default: break;
    }
}

static void print_node(FILE *out, struct arena *arena, const struct hlo_instr *instr) {
    const char *shape = shape_to_string(arena, instr->shape, false);
    enum { MOST = 80 }; /* characters of a tuple's shape */
    fprintf(out, "    n%d [label=\"", instr->id);
    print_text(out, instr->name);
    fprintf(out, "\\n%s", opcode_name(instr->opcode));
    print_detail(out, instr);
    fprintf(out, "\\n%.*s\", fillcolor=\"%s\"", MOST, shape, colour_of(instr));
    if (instr == instr->parent->root) fprintf(out, ", penwidth=3");
    fprintf(out, "];\n");
}

static void print_edges(FILE *out, const struct hlo_instr *instr) {
    for (int i = 0; i < instr->noperands; i++)
        fprintf(out, "  n%d -> n%d;\n", instr->operands[i]->id, instr->id);
    for (int i = 0; i < instr->ncontrol; i++)
        fprintf(out, "  n%d -> n%d [style=dotted];\n", instr->control[i]->id, instr->id);
    for (int i = 0; i < instr->ncalled; i++)
        if (instr->called[i]->root)
            fprintf(out, "  n%d -> n%d [style=dashed, constraint=false];\n",
                    instr->called[i]->root->id, instr->id);
}

void module_print_dot(FILE *out, const struct hlo_module *module) {
    struct arena *arena = arena_new();
    fprintf(out, "digraph \"");
    print_text(out, module->name);
    fprintf(out, "\" {\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n");
    for (const struct hlo_computation *c = module->first; c; c = c->next) {
        fprintf(out, "  subgraph \"cluster_%d\" {\n    label=\"", c->id);
        print_text(out, c->name);
        fprintf(out, "\";\n");
        for (const struct hlo_instr *i = c->first; i; i = i->next)
            print_node(out, arena, i);
        fprintf(out, "  }\n");
    }
    for (const struct hlo_computation *c = module->first; c; c = c->next)
        for (const struct hlo_instr *i = c->first; i; i = i->next)
            print_edges(out, i);
    fprintf(out, "}\n");
    arena_free(arena);
}
