import t from 'tap'
import { allocateBuffer, copyBuffer, releaseBuffer } from '../../shared/process/buffers.ts'

t.test(
  'buffers of up to 200 KB are released without affecting the memory of other buffers',
  async (t) => {
    for (let bytes = 1; bytes < 200_000; bytes += 997) {
      const other = copyBuffer(Buffer.from('other'))
      releaseBuffer(allocateBuffer(bytes))
      releaseBuffer(copyBuffer(Buffer.alloc(bytes)))
      releaseBuffer(Buffer.concat([Buffer.alloc(bytes), Buffer.alloc(1)]))
      t.equal(other.toString(), 'other')
    }
  },
)

t.test('a whole large buffer is released immediately, and a part of a buffer is not', async (t) => {
  const whole = allocateBuffer(100_000)
  releaseBuffer(whole.subarray(1))
  t.equal(whole.length, 100_000)
  releaseBuffer(whole)
  t.equal(whole.length, 0)
})
