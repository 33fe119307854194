/** One simulator for a test file, and per test a control plane and workers that are always cleared away. */
import assert from 'node:assert/strict'
import { after, afterEach, before } from 'node:test'
import { ControlPlane } from './controlPlane.ts'
import { newFolder } from './folders.ts'
import { Simulator } from './simulator.ts'
import { waitFor } from './wait.ts'
import { WorkerProcess } from './workerProcess.ts'

export interface StartOptions {
  readonly env?: Record<string, string>
  readonly proxy?: string
  /** Go on with the control plane of the worker before. */
  readonly keepPlane?: boolean
}

export class Stage {
  readonly folder: string
  simulator!: Simulator
  plane!: ControlPlane
  readonly #workers: WorkerProcess[] = []

  constructor(name: string) {
    this.folder = newFolder(name)
    before(async () => {
      this.simulator = await Simulator.start(this.folder)
    })
    after(() => this.simulator?.stop())
    afterEach(async () => {
      await Promise.all(this.#workers.splice(0).map(worker => worker.kill()))
      await this.plane.stop()
      await this.simulator.faults({ clear: true })
      assert.deepEqual(this.plane.problems, [])
    })
  }

  async start(sessionId: string, options: StartOptions = {}): Promise<WorkerProcess> {
    if (!options.keepPlane) {
      this.plane = new ControlPlane()
      await this.plane.start()
    }
    const { plane, simulator } = this
    const worker = new WorkerProcess({ sessionId, sessionsDir: this.folder, plane, simulator, ...options })
    this.#workers.push(worker)
    return worker
  }

  async pair(phone: string): Promise<void> {
    const { data } = await this.plane.event('QR_CODE')
    await this.simulator.call('POST', `/phones/${phone}/scan`, { qr: data['qr'] })
    await this.plane.event('CONNECTED')
  }

  /** A worker that is paired and open. */
  async startPaired(sessionId: string, phone: string, options: StartOptions = {}): Promise<WorkerProcess> {
    const worker = await this.start(sessionId, options)
    await this.pair(phone)
    return worker
  }

  async phone(phone: string, options: Record<string, unknown> = {}): Promise<string> {
    await this.simulator.call('POST', '/phones', { phone, ...options })
    return `${phone}@s.whatsapp.net`
  }

  connectedAgain(count: number): Promise<boolean> {
    return waitFor(`CONNECTED number ${count}`, () => this.plane.ofType('CONNECTED').length >= count)
  }
}
