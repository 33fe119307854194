import { enqueue, load, ready } from './enqueue.mjs'

const express = load('express')
const app = express()
app.use(express.json())
app.post('/api/v1/send', async (request, response) => response.status(202).json(await enqueue(request.body)))
const server = app.listen(0, '127.0.0.1', () => ready(server.address().port))
