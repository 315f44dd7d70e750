// Lets a bundler leave out what a page does not use, though a file holds more: what a module does when it is loaded makes its own
// names and nothing else, which a bundler takes only on the word of an annotation.

/**
 * Marks what the declarations of a module do when it is loaded. `program` is its syntax tree. No line is added, so a source map
 * stays right line by line.
 */
export function markPure(code, program) {
  const marks = program.body.flatMap(statement => {
    const declaration = statement.declaration ?? statement
    if (declaration.type === 'ClassDeclaration') return markClass(declaration)
    if (declaration.type !== 'VariableDeclaration') return []
    return declaration.declarations.flatMap(({ init }) =>
      isPlain(init) || isAwaited(code, init) ? [] : markValue(init),
    )
  })
  return marks
    .sort((one, other) => other.at - one.at)
    .reduce((text, { at, insert }) => text.slice(0, at) + insert + text.slice(at), code)
}

const MARK = '/* @__PURE__ */ (() => '

function markValue({ start, end }) {
  return [
    { at: start, insert: `${MARK}(` },
    { at: end, insert: '))()' },
  ]
}

/** A class that does something when it is defined. */
function markClass({ id, body, start, end }) {
  if (!body.body.some(isRun)) return []
  return [
    { at: start, insert: `const ${id.name} = ${MARK}{ ` },
    { at: end, insert: `; return ${id.name} })()` },
  ]
}

const isRun = ({ type, static: isStatic, computed }) =>
  type === 'StaticBlock' || (type === 'PropertyDefinition' && isStatic) || computed === true

/** What a program waits for can't stand in a function that is not async. */
const isAwaited = (code, { start, end }) => /\bawait\b/.test(code.slice(start, end))

/** Whether making a value does nothing but that, as any bundler sees. */
function isPlain(node) {
  switch (node?.type) {
    case undefined:
    case 'Literal':
    case 'Identifier':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
      return true
    case 'UnaryExpression':
      return isPlain(node.argument)
    case 'ArrayExpression':
      return node.elements.every(isPlain)
    case 'ObjectExpression':
      return node.properties.every(
        ({ type, computed, value }) => type === 'Property' && !computed && isPlain(value),
      )
    default:
      return false
  }
}
