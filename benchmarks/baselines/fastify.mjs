import { enqueue, load, ready } from './enqueue.mjs'

const fastify = load('fastify')
const app = fastify()
app.post('/api/v1/send', async (request, reply) => {
  reply.code(202)
  return enqueue(request.body)
})
await app.listen({ port: 0, host: '127.0.0.1' })
ready(app.server.address().port)
