"""Writes the README's C++ as programs: readme.py <README.md> <folder>.

program.cpp is the block that has a main; fragments.cpp has each other block as a function, after what
the text around it takes for granted. A block under a heading without an entry here is an error, so that
nothing new goes unread by a compiler.
"""
import pathlib
import re
import sys

TAKEN_FOR_GRANTED = {
    "Tensors": "",
    "Models": "Tensor x_train, y_train;",
    "Strategies": """
        auto batches = td::data::Dataset::from_tensor_slices(Tensor(0.0f), Tensor(0.0f));
        auto train_step = td::function([](const Tensor& x, const Tensor& y) { return x * y; });""",
    "Data": "auto step = [](const Tensor&, const Tensor&) {};",
    "Devices": "Tensor a;",
    "Compiled functions": "",
    "Checkpoints": "td::keras::optimizers::Adam optimizer; td::keras::Sequential model;",
}


def blocks(text):
    """(heading, code) of each block of C++."""
    heading = None
    for match in re.finditer(r"^## ([^\n]+)$|^```cpp\n(.*?)^```$", text, re.M | re.S):
        if match[1]:
            heading = match[1]
        else:
            yield heading, match[2]


def main(readme, folder):
    programs, fragments = [], [
        "#include <tandem/tandem.h>", "namespace td = tandem;", "using td::Tensor;",
        "inline void train() {}  // A name of the user's that the namespace has too."]
    for number, (heading, code) in enumerate(blocks(readme.read_text())):
        if "int main" in code:
            programs.append(code)
        elif heading in TAKEN_FOR_GRANTED:
            fragments.append(
                f'void fragment_{number}() {{ {TAKEN_FOR_GRANTED[heading]}\n'
                f'#line 1 "README.md, {heading}"\n{code}}}')
        else:
            sys.exit(f"readme.py does not know what the C++ under '{heading}' takes for granted")
    if len(programs) != 1 or len(fragments) < 5:
        sys.exit(f"the README has {len(programs)} programs and {len(fragments) - 4} fragments")
    (folder / "program.cpp").write_text(programs[0])
    (folder / "fragments.cpp").write_text("\n".join(fragments) + "\n")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
