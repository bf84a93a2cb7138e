"""Analysis of a traced loop's source: the outer names that its body reads, and whether turns depend on each other.

The answer comes from the syntax tree of the file. A loop is identified by its function and its line, and the file must still
compile to the code that runs.
Where the source has a statement that this module does not follow (a `match`, a class, a generator) the answer is None.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType

METHODS = ("range", "each")
"""The methods of a kernel that begin a traced loop."""
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp
"""Syntax whose body may run later than the place where it stands."""
_INNER = _SCOPES | ast.ListComp | ast.SetComp | ast.DictComp | ast.ClassDef
"""Syntax with variables of its own."""


class NotFollowed(Exception):
    """Raised for source with a statement or expression not followed here; `names_from_outside` then returns None."""


@lru_cache(256)
def names_from_outside(code: CodeType, line: int) -> frozenset[str] | None:
    """Return the names that the body of the loop at `line` reads before it writes them: those of values from outside the loop.

    None where one turn depends on another (the body writes a name that a later turn, or code outside, may read), and where the
    source is not understood. Kept for 256 loops.
    """
    function = _function_of(code)
    loop = None if function is None else _loop_at(function, line)
    if function is None or loop is None:
        return None
    try:
        return _outside(function, loop)
    except NotFollowed:
        return None


def _function_of(code: CodeType) -> ast.FunctionDef | None:
    """Return the syntax tree of the `def` with this code; None for a lambda, a module or `async def`, and where the file no
    longer compiles to the code.
    """
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(source)
        made = compile(tree, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    if not any(_same(one, code) for one in _codes(made)):
        return None  # the file was changed, or Python runs something else
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name, _first_line(node)) == (code.co_name, code.co_firstlineno):
            return node
    return None


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *[one.lineno for one in function.decorator_list]])


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and, recursively, those of the functions inside it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _same(one: CodeType, other: CodeType) -> bool:
    """Return True if two code objects have equal name, first line, bytecode and variables."""
    names = ("co_name", "co_firstlineno", "co_code", "co_names", "co_varnames", "co_cellvars", "co_freevars")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _loop_at(function: ast.FunctionDef, line: int) -> ast.For | None:
    """Return the `for` statement over `k.range(...)` or `k.each(...)`, if the name before the parenthesis ends at `line`.

    None if no such call or several have their names there, or if it is not what a `for` goes over.
    """
    calls = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
        if node.func.end_lineno == line
    ]
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For) and node.iter in calls]
    return loops[0] if len(loops) == len(calls) == 1 else None


def _outside(function: ast.FunctionDef, loop: ast.For) -> frozenset[str] | None:
    """Return the names that the body of `loop` reads from outside it; None where the body writes a name that a later turn, or
    code outside the loop, may read.

    Raises NotFollowed for a body that changes attributes or declares names global or nonlocal, and for syntax in, around or
    after the loop that `_Names` does not follow (a match, a class, a yield).
    """
    inside = _Names()
    own: set[str] = set()
    inside.write(loop.target, own)
    for node in (one for statement in loop.body for one in ast.walk(statement)):
        if isinstance(node, ast.Global | ast.Nonlocal):
            raise NotFollowed
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            raise NotFollowed  # it changes an object
    inside.block(loop.body, own)
    inner = {id(node) for node in ast.walk(loop)}
    elsewhere = _Names()
    if elsewhere.after(function.body, loop) is None:
        raise NotFollowed  # it stands inside a statement that is not followed, such as a match
    for node in ast.walk(function):
        if id(node) in inner or node is function:
            continue
        if isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere.outside |= set(node.names)
        elif isinstance(node, _SCOPES):
            elsewhere.outside |= _free(node)
    if inside.written & (inside.outside | elsewhere.outside):
        return None
    return frozenset(inside.outside)


def _free(scope: ast.AST) -> set[str]:
    """Return the names that an inner function or generator expression may take from outside.

    These are the names that it declares global or nonlocal, or reads and, as a function, does not assign itself. What
    functions, classes and comprehensions inside it assign counts for nothing, what they read as read by it.
    """
    nodes = list(ast.walk(scope))
    function = not isinstance(scope, ast.GeneratorExp)
    inside = [node for node in nodes if isinstance(node, _INNER) and not (function and node is scope)]
    below = {id(one) for node in inside for one in ast.walk(node)}
    own: set[str] = set()
    read: set[str] = set()
    shared: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            shared |= set(node.names)
        elif isinstance(node, ast.Name | ast.arg) and id(node) not in below:
            own.add(node.id if isinstance(node, ast.Name) else node.arg)
    return (read - own) | shared


def _defaults(function: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    """Return the defaults of a function's parameters, which are evaluated outside it."""
    return [*function.args.defaults, *filter(None, function.args.kw_defaults)]


class _Names:
    """Record of the names that statements read and write, followed in the order in which they run.

    `outside` are the names read before they were surely written, `written` those that some statement writes. The methods take
    `own`, the names surely written so far, and may add to it in place; some return such a set, or None if no statement can
    follow.
    """

    def __init__(self) -> None:
        self.outside: set[str] = set()
        self.written: set[str] = set()

    def block(self, statements: Iterable[ast.stmt], own: set[str] | None) -> set[str] | None:
        """Record the names that statements read and write; return `own` and the names that they surely write, or None once no
        statement can follow.

        The result may be `own` itself, changed, or a new set. Raises NotFollowed as `statement` does.
        """
        for statement in statements:
            if own is not None:
                own = self.statement(statement, own)
        return own

    def statement(self, node: ast.stmt, own: set[str]) -> set[str] | None:
        """Follow one statement; return the names surely written, None if it ends the block. NotFollowed for other kinds."""
        match node:
            case ast.Assign():
                self.read(node.value, own)
                self.write_all(node.targets, own)
            case ast.AnnAssign():
                if node.value is not None:
                    self.read(node.value, own)
                    self.write(node.target, own)
            case ast.AugAssign():
                self.read(_loaded(node.target), own)
                self.read(node.value, own)
                self.write(node.target, own)
            case ast.If():
                self.read(node.test, own)
                return _both(self.block(node.body, set(own)), self.block(node.orelse, set(own)))
            case ast.For():
                self.read(node.iter, own)
                turn = set(own)
                self.write(node.target, turn)
                self.block(node.body, turn)
                self.block(node.orelse, set(own))
            case ast.While():
                self.read(node.test, own)
                self.block(node.body, set(own))
                self.block(node.orelse, set(own))
            case ast.With():
                for item in node.items:
                    self.read(item.context_expr, own)
                    if item.optional_vars is not None:
                        self.write(item.optional_vars, own)
                return self.block(node.body, own)
            case ast.Try():
                self.block([*node.body, *node.orelse], set(own))
                for handler in node.handlers:
                    self.block(handler.body, {*own, handler.name} if handler.name else set(own))
                    self.written |= {handler.name} if handler.name else set()
                return self.block(node.finalbody, own)
            case ast.FunctionDef():
                self.read_all([*node.decorator_list, *_defaults(node)], own)
                self.outside |= _free(node) - own - {node.name}
                self.take(node.name, own)
            case ast.Import() | ast.ImportFrom():
                for name in node.names:
                    self.take((name.asname or name.name).partition(".")[0], own)
            case ast.Expr() | ast.Assert() | ast.Return() | ast.Raise():
                self.read_all(ast.iter_child_nodes(node), own)
                return None if isinstance(node, ast.Return | ast.Raise) else own
            case ast.Break() | ast.Continue():
                return None
            case ast.Pass() | ast.Global() | ast.Nonlocal():
                pass
            case _:
                raise NotFollowed
        return own

    def read_all(self, nodes: Iterable[ast.AST], own: set[str]) -> None:
        for node in nodes:
            self.read(node, own)

    def read(self, node: ast.AST, own: set[str]) -> None:
        """Add to `outside` the names that an expression reads and that are not in `own`, in the order in which Python evaluates
        its parts; add to `own` the names that `:=` writes.

        Raises NotFollowed for yield and await.
        """
        match node:
            case ast.Name():
                if node.id not in own:
                    self.outside.add(node.id)
            case ast.NamedExpr():
                self.read(node.value, own)
                self.write(node.target, own)
            case ast.BoolOp():
                self.read(node.values[0], own)
                self.read_all(node.values[1:], set(own))  # they may not be evaluated
            case ast.Compare():
                self.read_all((node.left, node.comparators[0]), own)
                self.read_all(node.comparators[1:], set(own))
            case ast.IfExp():
                self.read(node.test, own)
                self.read(node.body, set(own))
                self.read(node.orelse, set(own))
            case ast.Lambda():
                self.read_all(_defaults(node), own)
                self.outside |= _free(node) - own
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inner = set(own)
                for part in node.generators:
                    self.read(part.iter, inner)
                    inner |= {one.id for one in ast.walk(part.target) if isinstance(one, ast.Name)}
                    self.read_all(part.ifs, inner)
                self.read_all([one for name, one in ast.iter_fields(node) if name != "generators"], inner)
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                raise NotFollowed
            case _:
                self.read_all(ast.iter_child_nodes(node), own)

    def write_all(self, targets: Iterable[ast.AST], own: set[str]) -> None:
        for target in targets:
            self.write(target, own)

    def write(self, target: ast.AST, own: set[str]) -> None:
        """Add the names that an assignment to `target` writes to `own` and `written`; the object of an attribute or index is
        read.
        """
        match target:
            case ast.Name():
                self.take(target.id, own)
            case ast.Tuple() | ast.List():
                self.write_all(target.elts, own)
            case ast.Starred():
                self.write(target.value, own)
            case _:
                self.read_all(ast.iter_child_nodes(target), own)

    def take(self, name: str, own: set[str]) -> None:
        """Record that `name` is written, surely from now on (`own`)."""
        self.written.add(name)
        own.add(name)

    def after(self, statements: list[ast.stmt], loop: ast.For) -> set[str] | None:
        """Follow the statements after `loop` to the end of the function; outer loops around it are followed for one further
        turn.

        Returns the names surely written since; None if `loop` is not among the statements. A break, a continue or an exception
        may skip what an outer loop or try writes, so that counts as not written.
        """
        for place, node in enumerate(statements):
            if node is loop:
                self.block(loop.orelse, set())  # a break skips it
                return self.block(statements[place + 1 :], set()) or set()
            for inner in _blocks(node):
                found = self.after(inner, loop)
                if found is None:
                    continue
                further: list[list[ast.stmt]] = []
                if isinstance(node, ast.For | ast.While):  # its next turn, which may not come
                    turn: set[str] = set()
                    if isinstance(node, ast.For):
                        self.write(node.target, turn)
                    else:
                        self.read(node.test, turn)
                    self.block(node.body, turn)
                    further = [node.orelse]
                elif isinstance(node, ast.Try | ast.TryStar):
                    further = [node.orelse, node.finalbody, *[handler.body for handler in node.handlers]]
                for block in further:
                    self.block(block, set())
                return self.block(statements[place + 1 :], set() if further else found) or set()
        return None


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements inside a compound statement (if, loop, with, try); none of an inner function."""
    if isinstance(node, ast.FunctionDef):
        return
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(node, name, None):
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body


def _both(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    """Return the names that are surely written after either of two branches; None marks a branch after which nothing runs."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _loaded(target: ast.AST) -> ast.AST:
    """Return the expression that reads the target of an augmented assignment: a name in context Load, others as they are."""
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target
