/** A/B: messages/s out (unpaced, one session), messages/s in, PSS; bundle given by argv. */
import { spawn } from 'node:child_process'
import { readFileSync, mkdtempSync, rmSync } from 'node:fs'
import { ControlPlane, SECRET } from '/work/main/worker/test/harness/controlPlane.ts'
import { Simulator } from '/work/main/worker/test/harness/simulator.ts'
import { waitFor } from '/work/main/worker/test/harness/wait.ts'
const OUT = 300, IN = 300
const cpu = (pid: number): number => { const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' '); return (Number(f[11]) + Number(f[12])) * 10 }
const pss = (pid: number): number => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))![1]) / 1024
const run = async (name: string, dist: string, simulator: Simulator, n: number): Promise<void> => {
  const folder = mkdtempSync('/tmp/ab/s-')
  const plane = new ControlPlane(); await plane.start()
  const flags = JSON.parse(readFileSync(`${dist}/worker.flags.json`, 'utf8'))
  const child = spawn(process.execPath, [...flags.nodeFlags, `${dist}/worker.mjs`], { stdio: 'ignore', env: { PATH: process.env['PATH'], ...flags.env, SESSION_ID: 'ab', SESSIONS_DIR: folder, PROXY_URL: simulator.ready.proxies[0], WEBHOOK_URL: plane.url, WEBHOOK_SECRET: SECRET, WA_WEBSOCKET_URL: simulator.ready.websocketUrl, WA_ROOT_PUBLIC_KEY: simulator.ready.rootPublicKey, NODE_EXTRA_CA_CERTS: simulator.ready.caFile, LOG_LEVEL: 'info' } })
  const pid = child.pid!
  try {
    const me = `9725000${String(n).padStart(5, '0')}`, other = `9725900${String(n).padStart(5, '0')}`
    await simulator.call('POST', '/phones', { phone: other })
    const { data } = await plane.event('QR_CODE')
    await simulator.call('POST', `/phones/${me}/scan`, { qr: data['qr'] })
    await plane.event('CONNECTED')
    await plane.ack(plane.enqueue(`${other}@s.whatsapp.net`, { kind: 'text', text: 'warm' }).messageId)
    await new Promise(r => setTimeout(r, 6000))
    const idle = pss(pid)
    let began = performance.now(), c = cpu(pid)
    for (let i = 0; i < OUT; i++) plane.enqueue(`${other}@s.whatsapp.net`, { kind: 'text', text: `m${i}` })
    await waitFor('acks', () => plane.acks.length >= OUT + 1, 120000)
    const out = OUT / (performance.now() - began) * 1000
    await waitFor('statuses', () => plane.ofType('MESSAGE_STATUS').length >= OUT + 1, 60000)
    const outCpu = (cpu(pid) - c) / OUT
    began = performance.now(); c = cpu(pid)
    for (let i = 0; i < IN; i += 10) await Promise.all(Array.from({ length: 10 }, (_, k) => simulator.call('POST', `/phones/${other}/send`, { to: me, text: `i${i + k}` })))
    await waitFor('received', () => plane.ofType('MESSAGE_RECEIVED').length >= IN, 120000)
    const inn = IN / (performance.now() - began) * 1000
    const inCpu = (cpu(pid) - c) / IN
    await new Promise(r => setTimeout(r, 3000))
    const journal = readFileSync(`${folder}/ab/auth/journal`).length
    console.log(`${name}: out ${out.toFixed(1)}/s ${outCpu.toFixed(2)} ms cpu each; in ${inn.toFixed(1)}/s ${inCpu.toFixed(2)} ms cpu each; PSS idle ${idle.toFixed(1)} after ${pss(pid).toFixed(1)} MB; journal ${(journal / 1024).toFixed(0)} KB`)
  } finally { child.kill('SIGKILL'); await plane.stop(); rmSync(folder, { recursive: true, force: true }) }
}
const simulator = await Simulator.start('/tmp/ab')
let n = Number(process.argv[2] ?? 1)
try { for (let i = 0; i < Number(process.argv[3] ?? 3); i++) { await Promise.all([run('old', '/tmp/old-worker-dist', simulator, n++), run('new', '/tmp/new-worker-dist', simulator, n++)]) } } finally { await simulator.stop() }
