# The program and the module are linked with BIND_NOW and check their stacks; the program checks the
# sizes of buffers (the module calls no function that has such a check).

function(expect file part pattern)
  execute_process(COMMAND ${READELF} -W ${part} "${file}" OUTPUT_VARIABLE found
    COMMAND_ERROR_IS_FATAL ANY)
  if(NOT found MATCHES "${pattern}")
    message(SEND_ERROR "readelf ${part} ${file} shows no ${pattern}")
  endif()
endfunction()

foreach(file IN ITEMS ${PROGRAM} ${MODULE})
  expect(${file} -d "BIND_NOW|Flags:[^\n]* NOW")
  expect(${file} --program-headers GNU_RELRO)
  expect(${file} --dyn-syms __stack_chk_fail)
endforeach()
expect(${PROGRAM} --dyn-syms "__[a-z]+_chk@")
